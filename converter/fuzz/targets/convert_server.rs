//! Requests to a converter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::{check, survives};
use tributary_proto::convert::{MAX_LENGTH, Request, SUPPORTED_TCP_EXTENSIONS, Tlv, server, server::Refusal};

fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    server::parse(bytes, &SUPPORTED_TCP_EXTENSIONS)
}

fuzz_target!(|data: &[u8]| {
    match check(data, MAX_LENGTH, parse) {
        Some(request) => {
            let bytes = request.encode().expect("as short as what was parsed");
            survives(&request, &bytes, parse);
            let _ = request.reply(data, data).encode();
        }
        None => check_refusal(data),
    }
});

/// The answer to a refused request is one message, and says what the fault does.
fn check_refusal(data: &[u8]) {
    let Err(refusal) = parse(data) else {
        return;
    };
    if let Some(error) = &refusal.error {
        let reply = error.encode();
        let (tlvs, consumed) = tributary_proto::convert::parse(&reply).expect("valid").expect("whole");
        assert_eq!(consumed, reply.len());
        assert!(matches!(&tlvs[..], [Tlv::Error(sent)] if sent.code() == error.code()));
    }
}
