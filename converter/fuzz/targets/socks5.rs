//! What a client of SOCKS5 sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::{check, survives};
use tributary_proto::host::Host;
use tributary_proto::socks5::{parse_greeting, parse_login, parse_request};

fuzz_target!(|data: &[u8]| {
    // What a client may leave empty, no emitter does.
    if let Some(greeting) = check(data, 257, parse_greeting) {
        if let Ok(bytes) = greeting.encode() {
            survives(&greeting, &bytes, parse_greeting);
        }
    }
    if let Some(login) = check(data, 513, parse_login) {
        if let Ok(bytes) = login.encode() {
            survives(&login, &bytes, parse_login);
        }
    }
    if let Some(request) = check(data, 262, parse_request) {
        survives(
            &request,
            &request.encode().expect("a name of 1 to 255 bytes"),
            parse_request,
        );
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
