//! Headers of the PROXY protocol.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::{check, survives};
use tributary_wire::proxy_protocol::{MAX_ENCODED_LENGTH, parse};

fuzz_target!(|data: &[u8]| {
    if let Some(header) = check(data, 65_551, parse) {
        let bytes = header.encode();
        assert!(bytes.len() <= MAX_ENCODED_LENGTH);
        survives(&header, &bytes, parse);
    }
});
