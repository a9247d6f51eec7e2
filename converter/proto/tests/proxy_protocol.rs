//! Headers of the PROXY protocol, byte by byte.

mod hex;

use hex::hex;
use tributary_proto::proxy_protocol::header;

#[test]
fn a_header_has_both_addresses_in_one_family() {
    #[rustfmt::skip]
    let cases = [
        ("192.0.2.1:49153", "198.51.100.2:443", "21 11 000c  c0000201 c6336402 c001 01bb"),
        ("[2001:db8::1]:1", "[2001:db8::2]:65535", "21 21 0024  20010db8000000000000000000000001 20010db8000000000000000000000002 0001 ffff"),
        ("192.0.2.1:5", "[2001:db8::2]:443", "21 21 0024  00000000000000000000ffffc0000201 20010db8000000000000000000000002 0005 01bb"),
        ("[2001:db8::2]:5", "192.0.2.1:443", "21 21 0024  20010db8000000000000000000000002 00000000000000000000ffffc0000201 0005 01bb"),
    ];
    for (source, destination, rest) in cases {
        let expected = [hex("0d0a0d0a 000d0a51 5549540a"), hex(rest)].concat();
        let [source, destination] = [source, destination].map(|each| each.parse().expect(each));
        assert_eq!(header(source, destination), expected);
    }
}
