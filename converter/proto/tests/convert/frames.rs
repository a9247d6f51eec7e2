//! Frames, in whatever pieces they come.

use proptest::collection::vec;
use proptest::prelude::*;
use tributary_proto::convert::{BadFrame, END, FrameReader, MAX_FRAME, frame_header};

/// Gives the reader all of it in pieces of these lengths, the last one without end, and returns what it took for content.
fn read(reader: &mut FrameReader, bytes: &[u8], pieces: &[usize]) -> Result<Vec<u8>, BadFrame> {
    let (mut content, mut rest) = (Vec::new(), bytes);
    for length in pieces.iter().copied().chain([usize::MAX]) {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        let mut piece = piece.to_vec();
        let (length, behind) = reader.unwrap(&mut piece)?;
        assert_eq!(behind, piece.len(), "nothing came behind the end");
        content.extend_from_slice(&piece[..length]);
        rest = after;
    }
    Ok(content)
}

fn framed(contents: &[Vec<u8>]) -> Vec<u8> {
    let frame = |content: &Vec<u8>| [&frame_header(content.len())[..], content].concat();
    contents.iter().flat_map(frame).collect()
}

proptest! {
    #[test]
    fn content_is_the_same_however_it_comes(
        contents in vec(vec(any::<u8>(), 1..40), 0..6),
        pieces in vec(0_usize..20, 0..40),
        ends in any::<bool>(),
    ) {
        let mut bytes = framed(&contents);
        if ends {
            bytes.extend(END);
        }
        let mut reader = FrameReader::default();
        prop_assert_eq!(read(&mut reader, &bytes, &pieces), Ok(contents.concat()));
        prop_assert_eq!(reader.has_ended(), ends);
    }

    #[test]
    fn nothing_makes_it_fail_otherwise_than_by_an_error(mut bytes in vec(any::<u8>(), 0..200)) {
        let length = bytes.len();
        if let Ok((content, behind)) = FrameReader::default().unwrap(&mut bytes) {
            prop_assert!(content <= behind && behind <= length);
        }
    }
}

#[test]
fn what_comes_behind_the_end_is_left_where_it_is() {
    let mut reader = FrameReader::default();
    let mut bytes = [0, 0, 0, 1, 7, 0, 0, 0, 0, 8, 9];
    assert_eq!(reader.unwrap(&mut bytes), Ok((1, 9)));
    assert_eq!((bytes[0], &bytes[9..]), (7, &[8, 9][..]));
    assert_eq!(reader.unwrap(&mut [1]), Ok((0, 0)));
}

#[test]
fn what_claims_to_be_longer_than_any_frame_is_none() {
    let longest = frame_header(MAX_FRAME);
    assert_eq!(read(&mut FrameReader::default(), &longest, &[]), Ok(vec![]));
    let longer = (u32::try_from(MAX_FRAME).expect("small") + 1).to_be_bytes();
    assert_eq!(read(&mut FrameReader::default(), &longer, &[]), Err(BadFrame));
}
