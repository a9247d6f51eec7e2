//! How much of a message is taken in before it is refused.

use super::Pseudonym;

/// The bound on a head, and the name by which this proxy knows itself.
#[derive(Clone, Debug)]
pub struct HeadLimits {
    /// Bytes of a head, its last empty line included, however many lines it has; more is refused with 431, or with 414 when
    /// the first line alone is longer. At least 8000 is recommended (RFC 9112 section 3). Less than 4 GiB.
    pub head: usize,
    /// The name that is added to Via; a request whose Via has it was here before, and is refused with 508. It must be unique
    /// to this process. Without one, Via is passed on as it came.
    pub pseudonym: Option<Pseudonym>,
}

impl Default for HeadLimits {
    /// 64 KiB of head, and no name.
    fn default() -> Self {
        Self {
            head: 64 * 1024,
            pseudonym: None,
        }
    }
}
