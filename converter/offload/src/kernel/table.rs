//! The kernel's table of translations: what of it is set here, and what is read.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tributary_sys::{array, mapped};

use aya::Ebpf;
use aya::maps::{HashMap, MapData, MapError};

use crate::leg::Flow;
use crate::translation::Translation;

// struct flow and struct translation (segment.bpf.h): their lengths, and where things are in the latter.
pub const KEY: usize = 36;
const VALUE: usize = 112;
const NUMBERS: usize = 36;
const SCALES: usize = 76;
const KNOWN: usize = 78;
const FIN: usize = 80;
const SYN: usize = 81;
const RESET: usize = 82;
const REFUSED: usize = 84;
const LAST: usize = 96;
const BYTES: usize = 104;

/// By which devices a direction comes in and goes out, by their numbers (`if_nametoindex(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Devices {
    /// What comes by another one is forged, and dropped; `None`: it may come by any.
    pub comes_by: Option<u32>,
    /// By which it goes out.
    pub goes_by: u32,
}

impl Devices {
    /// From anywhere to this one.
    pub fn to(goes_by: u32) -> Self {
        Self {
            comes_by: None,
            goes_by,
        }
    }
}

/// What a direction has seen. Who forges segments without knowing the connection's numbers adds to the last three alone
/// (RFC 5961).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether its sender has ended its data, and the other end has acknowledged that.
    pub fin: bool,
    /// Whether its sender has begun a new connection, behind the end of both directions.
    pub syn: bool,
    /// Whether its sender has ended the connection by a reset that the other end takes.
    pub reset: bool,
    /// The last segment, by the time since the machine started (`CLOCK_MONOTONIC`); `None` before the first one.
    pub last: Option<Duration>,
    /// Segments that were dropped since they could not be rewritten, or came by another device.
    pub refused: u32,
    /// Bytes of data that went out; what was sent again counts again.
    pub bytes: u64,
}

/// The table. Its owners share it: each takes its own translations out.
pub struct Table(Mutex<HashMap<MapData, [u8; KEY], [u8; VALUE]>>);

impl Table {
    /// That of a program which was loaded. Raises that it has none.
    pub fn of(ebpf: &mut Ebpf) -> io::Result<Self> {
        let missing = || io::Error::other("the compiled program lacks a table");
        let table = ebpf.take_map("translations").ok_or_else(missing)?;
        let table = HashMap::try_from(table).map_err(io::Error::other)?;
        Ok(Self(Mutex::new(table)))
    }

    pub fn insert(&self, translation: &Translation, devices: Devices) -> io::Result<()> {
        let value = value(translation, devices);
        let inserted = self.lock().insert(key(translation.from), value, 0);
        inserted.map_err(io::Error::other)
    }

    pub fn remove(&self, flow: Flow) -> io::Result<()> {
        self.lock().remove(&key(flow)).map_err(io::Error::other)
    }

    pub fn seen(&self, flow: Flow) -> io::Result<Option<Seen>> {
        match self.lock().get(&key(flow), 0) {
            Ok(value) => Ok(Some(seen(&value))),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MapData, [u8; KEY], [u8; VALUE]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flow as the kernel's programs have it.
pub fn key(flow: Flow) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..16].copy_from_slice(&mapped(flow.source.ip()).octets());
    key[16..32].copy_from_slice(&mapped(flow.destination.ip()).octets());
    key[32..34].copy_from_slice(&flow.source.port().to_be_bytes());
    key[34..].copy_from_slice(&flow.destination.port().to_be_bytes());
    key
}

fn value(translation: &Translation, devices: Devices) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    value[..KEY].copy_from_slice(&key(translation.to));
    let sender = translation.sender.unwrap_or_default();
    let numbers = [
        translation.sequence,
        translation.acknowledgement,
        translation.tsval,
        translation.tsecr,
        devices.goes_by,
        devices.comes_by.unwrap_or(0),
        sender.sent,
        0,
        sender.acknowledged,
        sender.room_end,
    ];
    for (place, number) in value[NUMBERS..SCALES].chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    value[SCALES..KNOWN].copy_from_slice(&[translation.scale_in, translation.scale_out]);
    value[KNOWN] = u8::from(translation.sender.is_some());
    value
}

fn seen(value: &[u8; VALUE]) -> Seen {
    let last = u64::from_ne_bytes(array(value, LAST));
    Seen {
        fin: value[FIN] != 0,
        syn: value[SYN] != 0,
        reset: value[RESET] != 0,
        last: (last != 0).then_some(Duration::from_nanos(last)),
        refused: u32::from_ne_bytes(array(value, REFUSED)),
        bytes: u64::from_ne_bytes(array(value, BYTES)),
    }
}
