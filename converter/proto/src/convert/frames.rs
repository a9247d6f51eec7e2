//! Transfers on a connection between two converters of this project, one after the other ([`super::Tlv::Reuse`]).
//!
//! Behind the messages each direction carries frames: a length of four bytes, the first one the highest, and so many bytes.
//! A frame of length 0 ends its direction. Behind its own end, and once it has passed on all of the other direction, the
//! converter that is asked says [`READY`]: then the next request may follow. Where none is to follow it says [`CLOSING`],
//! and looks at nothing that comes. RFC 8803 does not define this.

/// Bytes before the content of a frame.
pub const FRAME_HEADER: usize = 4;
/// Content of a frame at most: what claims to be longer is no frame.
pub const MAX_FRAME: usize = 1 << 24;
/// The end of a direction.
pub const END: [u8; FRAME_HEADER] = [0; FRAME_HEADER];

/// The next request may come.
pub const READY: [u8; FRAME_HEADER] = [0xff; FRAME_HEADER];
/// The connection ends, and a request that is on its way is not looked at.
pub const CLOSING: [u8; FRAME_HEADER] = [0xff, 0xff, 0xff, 0xfe];

/// What came is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame;

/// Returns what goes before so many bytes, 1 to [`MAX_FRAME`].
///
/// # Panics
/// If they are none, or more.
pub fn frame_header(length: usize) -> [u8; FRAME_HEADER] {
    assert!(0 < length && length <= MAX_FRAME, "{length}");
    u32::try_from(length).unwrap_or_default().to_be_bytes()
}

/// Takes the content of one direction's frames out of what comes, in whatever pieces.
#[derive(Clone, Debug, Default)]
pub struct FrameReader {
    /// Of the next frame's header, so many bytes.
    header: [u8; FRAME_HEADER],
    in_header: usize,
    /// Content of this frame that is still to come.
    rest: usize,
    has_ended: bool,
}

impl FrameReader {
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Moves the content of the frames in `bytes`, the next that came, to the start of it. Returns its length, and where that
    /// begins which came behind the end.
    pub fn unwrap(&mut self, bytes: &mut [u8]) -> Result<(usize, usize), BadFrame> {
        let (mut from, mut to) = (0, 0);
        while from < bytes.len() && !self.has_ended {
            if self.rest == 0 {
                self.header[self.in_header] = bytes[from];
                self.in_header += 1;
                from += 1;
                if self.in_header == FRAME_HEADER {
                    self.begin()?;
                }
                continue;
            }
            let length = self.rest.min(bytes.len() - from);
            bytes.copy_within(from..from + length, to);
            self.rest -= length;
            from += length;
            to += length;
        }
        Ok((to, from))
    }

    /// The header is whole.
    fn begin(&mut self) -> Result<(), BadFrame> {
        self.in_header = 0;
        self.rest = u32::from_be_bytes(self.header) as usize;
        self.has_ended = self.rest == 0;
        if self.rest > MAX_FRAME {
            return Err(BadFrame);
        }
        Ok(())
    }
}
