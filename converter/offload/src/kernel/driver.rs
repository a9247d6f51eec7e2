//! What a device's driver can do for programs that see frames before the kernel makes packets of them (XDP). The kernel tells
//! by generic netlink: Documentation/netlink/specs/netdev.yaml, since 6.3.

use std::io;

use tributary_sys::{Netlink, number_of};

// linux/genetlink.h: `struct genlmsghdr` before attributes, and the family of families.
const GENERIC: usize = 4;
const VERSION: u8 = 1;
const FAMILIES: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
// linux/netdev.h
const DEVICES: &[u8] = b"netdev\0";
const GET_DEVICE: u8 = 1;
const DEVICE: u16 = 1;
const FEATURES: u16 = 3;
const SENDS_FRAMES: u64 = 4; // NETDEV_XDP_ACT_NDO_XMIT

/// Whether the device with this number sends out frames that another device's program redirects to it.
pub fn sends_frames(device: u32) -> io::Result<bool> {
    let netlink = Netlink::open(libc::NETLINK_GENERIC)?;
    let ask = |family, command, attribute: (u16, &[u8]), wanted| {
        let answer = netlink.ask(family, &[command, VERSION, 0, 0], &[attribute])?;
        let value = answer.attribute(GENERIC, wanted);
        value
            .and_then(number_of)
            .ok_or_else(|| io::Error::other("the kernel does not tell what its drivers can do"))
    };
    let family = ask(FAMILIES, GET_FAMILY, (FAMILY_NAME, DEVICES), FAMILY_ID);
    let family = family.map_err(|error| io::Error::other(format!("Linux before 6.3 does not tell: {error}")))?;
    let family = u16::try_from(family).map_err(io::Error::other)?;
    let features = ask(family, GET_DEVICE, (DEVICE, &device.to_ne_bytes()), FEATURES)?;
    Ok(features & SENDS_FRAMES != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_of_loopback_that_it_sends_no_frames() {
        // A kernel before 6.3 knows nothing of it.
        assert!(!sends_frames(1).unwrap_or_default());
    }
}
