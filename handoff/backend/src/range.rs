//! Which part of an object a request is for (RFC 9110 section 14.2).

use http_range_header::parse_range_header;

/// What is sent of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// From this byte on, so many.
    Some {
        /// The first byte.
        from: u64,
        /// How many; one at least.
        length: u64,
    },
    /// There is no such part.
    Missing,
}

/// The part of an object of `size` bytes that a Range field asks for. More than one part, or what cannot be parsed, is
/// answered by the whole, as a server may.
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
