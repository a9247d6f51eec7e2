//! What a device's driver can do for programs that see frames before the kernel makes packets of them (XDP). The kernel tells
//! by generic netlink: Documentation/netlink/specs/netdev.yaml, since 6.3.

use std::io::{self, Read as _, Write as _};

use socket2::{Domain, Protocol, Socket, Type};

use crate::bytes::array;

// linux/netlink.h and linux/genetlink.h: headers, in the machine's byte order, and the family of families.
const MESSAGE: usize = 16;
const KIND: usize = 4;
const GENERIC: usize = 4;
const ATTRIBUTE: usize = 4;
const ALIGNMENT: usize = 4;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const FAMILIES: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Of the kind of an attribute, without its flags.
const KINDS: u16 = 0x3fff;
// linux/netdev.h
const DEVICES: &[u8] = b"netdev\0";
const GET_DEVICE: u8 = 1;
const DEVICE: u16 = 1;
const FEATURES: u16 = 3;
const SENDS_FRAMES: u64 = 4; // NETDEV_XDP_ACT_NDO_XMIT
/// Room for an answer.
const ANSWER: usize = 8192;

/// Whether the device with this number sends out frames that another device's program redirects to it.
pub fn sends_frames(device: u32) -> io::Result<bool> {
    let family = ask(FAMILIES, GET_FAMILY, FAMILY_NAME, DEVICES, FAMILY_ID);
    let family = family
        .map_err(|error| io::Error::other(format!("Linux before 6.3 does not tell: {error}")))?;
    let family = u16::from_ne_bytes(array(&family, 0));
    let device = device.to_ne_bytes();
    let features = ask(family, GET_DEVICE, DEVICE, &device, FEATURES)?;
    Ok(u64::from_ne_bytes(array(&features, 0)) & SENDS_FRAMES != 0)
}

/// One attribute of the answer to a command with one attribute, filled up to 8 bytes.
fn ask(family: u16, command: u8, kind: u16, value: &[u8], wanted: u16) -> io::Result<[u8; 8]> {
    let netlink = Protocol::from(libc::NETLINK_GENERIC);
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(netlink))?;
    socket.write_all(&request(family, command, kind, value))?;
    let mut answer = vec![0; ANSWER];
    let length = socket.read(&mut answer)?;
    attribute(&answer[..length], wanted)
}

fn request(family: u16, command: u8, kind: u16, value: &[u8]) -> Vec<u8> {
    let mut body = vec![command, 1, 0, 0];
    let length = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(u16::MAX);
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
    let length = u32::try_from(MESSAGE + body.len()).unwrap_or(u32::MAX);
    let head = [
        &length.to_ne_bytes()[..],
        &family.to_ne_bytes(),
        &REQUEST.to_ne_bytes(),
        &[0; 8],
    ];
    [&head.concat()[..], &body].concat()
}

/// Raises the error that the answer is.
fn attribute(answer: &[u8], wanted: u16) -> io::Result<[u8; 8]> {
    let cut = || io::Error::other("the kernel's answer is cut off");
    let body = answer.get(MESSAGE..).ok_or_else(cut)?;
    if u16::from_ne_bytes(array(answer, KIND)) == ERROR {
        let code = i32::from_ne_bytes(*body.first_chunk().ok_or_else(cut)?);
        return Err(io::Error::from_raw_os_error(-code));
    }
    let mut rest = body.get(GENERIC..).ok_or_else(cut)?;
    while let Some(head) = rest.first_chunk::<ATTRIBUTE>() {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = rest.get(ATTRIBUTE..length).ok_or_else(cut)?;
        if u16::from_ne_bytes([head[2], head[3]]) & KINDS == wanted {
            let mut found = [0; 8];
            let known = value.len().min(8);
            found[..known].copy_from_slice(&value[..known]);
            return Ok(found);
        }
        rest = rest
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
    }
    Err(io::Error::other(
        "the kernel does not tell what its drivers can do",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(MESSAGE + body.len()).expect("short");
        let head = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]];
        [&head.concat()[..], body].concat()
    }

    fn value(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE + value.len()).expect("short");
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    #[test]
    fn an_attribute_is_found_behind_others_and_filled_up() {
        let body = [&[1, 1, 0, 0][..], &value(7, b"abcde"), &value(3, &[9, 8])].concat();
        let answer = message(20, &body);
        assert_eq!(
            attribute(&answer, 3).expect("there"),
            [9, 8, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(&attribute(&answer, 7).expect("there")[..5], b"abcde");
        assert!(attribute(&answer, 4).is_err());
        assert!(attribute(&answer[..answer.len() - 4], 3).is_err());
    }

    #[test]
    fn an_error_is_the_kernels() {
        let answer = message(ERROR, &(-libc::ENOENT).to_ne_bytes());
        let error = attribute(&answer, 3).expect_err("an error");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(attribute(&answer[..MESSAGE], 3).is_err());
        assert!(attribute(&[], 3).is_err());
    }

    #[test]
    fn a_request_has_its_length_and_whole_words() {
        let request = request(FAMILIES, GET_FAMILY, FAMILY_NAME, DEVICES);
        assert_eq!(request.len(), 32);
        assert_eq!(u32::from_ne_bytes(array(&request, 0)), 32);
        assert_eq!(&request[24..], b"netdev\0\0");
    }

    #[test]
    fn the_kernel_tells_of_loopback_that_it_sends_no_frames() {
        // A kernel before 6.3 knows nothing of it.
        assert!(!sends_frames(1).unwrap_or_default());
    }
}
