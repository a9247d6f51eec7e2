//! Answers of a converter, and Convert messages of any kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::{check, survives};
use tributary_proto::convert::{MAX_LENGTH, client, client::Answer, encode, parse};

fuzz_target!(|data: &[u8]| {
    match check(data, MAX_LENGTH, client::parse) {
        Some(Answer::Refused(error)) => {
            survives(&Answer::Refused(error.clone()), &error.encode(), client::parse);
        }
        Some(Answer::Established(reply)) => {
            let (parsed, _) = client::parse(&reply.encode()).expect("valid").expect("whole");
            let Answer::Established(parsed) = parsed else {
                panic!("became {parsed:?}")
            };
            assert_eq!(parsed.encode(), reply.encode());
        }
        None => {}
    }
    if let Some(tlvs) = check(data, MAX_LENGTH, parse) {
        survives(&tlvs, &encode(&tlvs).expect("as short as what was parsed"), parse);
    }
});
