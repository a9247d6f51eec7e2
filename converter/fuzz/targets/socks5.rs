//! What a client of SOCKS5 sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::check;
use tributary_proto::host::Host;
use tributary_proto::socks5::{parse_greeting, parse_login, parse_request};

fuzz_target!(|data: &[u8]| {
    check(data, 257, parse_greeting);
    check(data, 513, parse_login);
    if let Some(request) = check(data, 262, parse_request) {
        if let Host::Name(name) = &request.host {
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            );
        }
    } else if let Err(fault) = parse_request(data) {
        let _ = fault.reply();
    }
});
