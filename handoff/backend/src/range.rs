//! The requested part of an object (RFC 9110 section 14.2).

use http_range_header::{EndPosition, StartPosition, parse_range_header};

/// What to send of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    Some {
        /// The offset of the first byte.
        from: u64,
        /// At least 1.
        length: u64,
    },
    /// The part does not exist.
    Missing,
}

/// The part of an object of `size` bytes that a Range field requests. Several parts, or a malformed or reversed one, get the
/// whole object, as RFC 9110 allows.
pub fn part(field: Option<&[u8]>, size: u64) -> Part {
    let text = field.and_then(|field| std::str::from_utf8(field).ok());
    let Some(Ok(parsed)) = text.map(parse_range_header) else {
        return Part::Whole;
    };
    let [range] = &parsed.ranges[..] else {
        return Part::Whole;
    };
    let (from, end) = match (range.start, range.end) {
        (StartPosition::Index(first), EndPosition::Index(last)) if last < first => return Part::Whole,
        (StartPosition::Index(first), EndPosition::Index(last)) => (first, size.min(last.saturating_add(1))),
        (StartPosition::Index(first), EndPosition::LastByte) => (first, size),
        (StartPosition::FromLast(count), _) => (size.saturating_sub(count), size),
    };
    match end.checked_sub(from) {
        None | Some(0) => Part::Missing,
        Some(length) => Part::Some { from, length },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_rfc_9110_has_them() {
        let some = |from, length| Part::Some { from, length };
        for (field, wanted) in [
            (None, Part::Whole),
            (Some("bytes=0-9"), some(0, 10)),
            (Some("bytes=90-"), some(90, 10)),
            (Some("bytes=-5"), some(95, 5)),
            (Some("bytes=99-99"), some(99, 1)),
            (Some("bytes=50-1000"), some(50, 50)),
            (Some("bytes=-100"), some(0, 100)),
            (Some("bytes=-101"), some(0, 100)),
            (Some("bytes=100-"), Part::Missing),
            (Some("bytes=100-200"), Part::Missing),
            (Some("bytes=9-5"), Part::Whole),
            (Some("bytes=200-150"), Part::Whole),
            (Some("bytes=0-1,5-6"), Part::Whole),
            (Some("lines=0-1"), Part::Whole),
            (Some("bytes"), Part::Whole),
        ] {
            assert_eq!(part(field.map(str::as_bytes), 100), wanted, "{field:?}");
        }
    }

    #[test]
    fn an_empty_object_has_no_parts() {
        for field in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            assert_eq!(part(Some(field.as_bytes()), 0), Part::Missing, "{field}");
        }
    }
}
