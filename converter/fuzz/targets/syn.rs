//! SYNs within IP packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_proto::syn::parse;

fuzz_target!(|data: &[u8]| {
    let Some(syn) = parse(data) else { return };
    assert_eq!(syn.client.is_ipv4(), syn.server.is_ipv4());
    // What follows the segment's header is no part of what it says.
    assert_eq!(parse(&[data, &[0xff; 8]].concat()), Some(syn));
});
