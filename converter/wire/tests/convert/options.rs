//! TCP options in the header that a converter returns.

use tributary_wire::convert::{TcpOption, header_options};

use crate::hex::hex;

fn kinds(options: &str) -> Vec<u8> {
    header_options(&hex(options))
        .into_iter()
        .map(|option| option.kind)
        .collect()
}

#[test]
fn nops_are_passed_over_and_the_end_of_the_list_ends_it() {
    assert_eq!(kinds("0204 05b4 0101 0402 0303 0700"), [2, 4, 3]);
    assert_eq!(kinds("0402 0000 0303 0700"), [4]);
    assert_eq!(kinds(""), [0; 0]);
}

#[test]
fn values_are_kept() {
    let mss = TcpOption {
        kind: 2,
        value: vec![5, 0xb4],
    };
    assert_eq!(header_options(&hex("0204 05b4")), [mss]);
}

#[test]
fn an_option_with_a_wrong_length_ends_the_list() {
    for options in ["0402 0200", "0402 0201", "0402 0204 05", "0402 02"] {
        assert_eq!(kinds(options), [4], "{options}");
    }
}
