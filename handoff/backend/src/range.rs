//! The requested part of an object (RFC 9110 section 14.2).

use http_range_header::parse_range_header;

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

/// The part of an object of `size` bytes that a Range field requests. Several parts, or a malformed field, get the whole
/// object, as RFC 9110 allows.
pub fn part(field: Option<&[u8]>, size: u64) -> Part {
    let text = field.and_then(|field| std::str::from_utf8(field).ok());
    let Some(Ok(ranges)) = text.map(parse_range_header) else {
        return Part::Whole;
    };
    if ranges.ranges.len() != 1 {
        return Part::Whole;
    }
    match ranges.validate(size) {
        Ok(ranges) => {
            let (first, last) = (*ranges[0].start(), *ranges[0].end());
            Part::Some {
                from: first,
                length: last - first + 1,
            }
        }
        Err(_) => Part::Missing,
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
            (Some("bytes=100-"), Part::Missing),
            (Some("bytes=0-1,5-6"), Part::Whole),
            (Some("lines=0-1"), Part::Whole),
            (Some("bytes"), Part::Whole),
        ] {
            assert_eq!(part(field.map(str::as_bytes), 100), wanted, "{field:?}");
        }
    }
}
