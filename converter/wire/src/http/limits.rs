//! How much of a message is taken in before it is refused.

use super::Pseudonym;

/// Bounds on a head, and the name by which this proxy knows itself.
#[derive(Clone, Debug)]
pub struct HeadLimits {
    /// Bytes of a head, its last empty line included; more is refused with 431.
    pub head: usize,
    /// Field lines of a head; more is refused with 431. At most [`HeadLimits::MOST_FIELDS`]; a greater value counts as that.
    pub fields: usize,
    /// Bytes of a request line, its CRLF included; more is refused with 414. At least 8000 is recommended (RFC 9112
    /// section 3).
    pub request_line: usize,
    /// A request whose Via names it has been here before and is refused with 508. It must be unique to this process.
    pub pseudonym: Pseudonym,
}

impl HeadLimits {
    /// The upper bound of [`HeadLimits::fields`].
    pub const MOST_FIELDS: usize = 256;

    /// 64 KiB of head, 100 fields, a request line of 16 KiB.
    pub fn new(pseudonym: Pseudonym) -> Self {
        Self {
            head: 64 * 1024,
            fields: 100,
            request_line: 16 * 1024,
            pseudonym,
        }
    }

    pub(crate) fn most_fields(&self) -> usize {
        self.fields.min(Self::MOST_FIELDS)
    }
}

impl Default for HeadLimits {
    /// The bounds of [`HeadLimits::new`] and the pseudonym `tributary`, which is right for a single proxy only.
    fn default() -> Self {
        Self::new(Pseudonym::default())
    }
}
