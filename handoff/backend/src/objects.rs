//! Serves files: GET with ranges, HEAD and, if allowed, PUT, without copying them.

use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use httpdate::HttpDate;
use percent_encoding::percent_decode_str;
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, flock, openat, openat2, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;
use tributary_proto::http::{Body, BodyReader, HeadLimits, Method, Refused, Request};

use crate::connection::{ClientConnection, NextStep, Server};
use crate::head::{next_request, refuse};
use crate::range::{Part, part};

/// Nothing above the folder, and no links out of it (openat2(2)).
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// With what the names of files that are not objects yet begin. No object may have such a name.
const UPLOAD: &str = ".upload-";

const TOO_LARGE: Refused = Refused::new(413, "the upload is too large");

#[derive(Debug)]
pub struct Objects {
    folder: OwnedFd,
    limits: HeadLimits,
    /// In bytes; without it, nobody may upload.
    largest_upload: Option<u64>,
    uploads: AtomicU64,
}

impl Objects {
    /// Removes the uploads of processes that were killed. Every client may upload objects of `largest_upload` bytes. Fails if
    /// the folder cannot be read.
    pub fn below(folder: &Path, largest_upload: Option<u64>) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, folder, flags, Mode::empty())?;
        remove_abandoned(&folder)?;
        Ok(Self {
            folder,
            limits: HeadLimits::default(),
            largest_upload,
            uploads: AtomicU64::new(0),
        })
    }

    async fn answer(&self, client: &mut ClientConnection, request: &Request) -> io::Result<NextStep> {
        let to_head = request.method == Method::Head;
        let Some(path) = path_of(request.path()) else {
            let refused = Refused::new(400, "the target is no path").to_head(to_head);
            return Ok(refuse(client, refused).await);
        };
        let done = match request.method {
            Method::Get | Method::Head => self.get(client, request, &path).await?,
            Method::Put => self.put(client, request, &path).await?,
            _ => Err(self.not_allowed()),
        };
        match done {
            Ok(()) if request.keep_alive => Ok(NextStep::KeepAlive),
            Ok(()) => Ok(NextStep::Close),
            Err(refused) => Ok(refuse(client, refused.to_head(to_head)).await),
        }
    }

    fn not_allowed(&self) -> Refused {
        match self.largest_upload {
            Some(_) => Refused::new(405, "GET, HEAD and PUT are served").allowing("GET, HEAD, PUT"),
            None => Refused::new(405, "uploads are not taken").allowing("GET, HEAD"),
        }
    }

    async fn get(&self, client: &mut ClientConnection, request: &Request, path: &str) -> Answer {
        if request.body.has_content() {
            return Ok(Err(Refused::new(400, "a GET with content")));
        }
        let Some((file, metadata)) = self.open(path) else {
            return empty(client, "404 Not Found", request.keep_alive).await;
        };
        let size = metadata.len();
        let part = requested_part(request, size);
        let mut head = Vec::new();
        let length = write_head(&mut head, part, &metadata, request.keep_alive);
        client.send(&head).await?;
        if request.method == Method::Get {
            let from = match part {
                Part::Some { from, .. } => from,
                Part::Whole | Part::Missing => 0,
            };
            client.send_file(&file, from, length).await?;
        }
        Ok(Ok(()))
    }

    fn open(&self, path: &str) -> Option<(File, Metadata)> {
        if is_upload(path) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = openat2(&self.folder, path, flags, Mode::empty(), WITHIN);
        let file = File::from(opened.ok()?);
        let metadata = file.metadata().ok()?;
        metadata.is_file().then_some((file, metadata))
    }

    /// Replaces an object atomically.
    async fn put(&self, client: &mut ClientConnection, request: &Request, path: &str) -> Answer {
        let Some(largest) = self.largest_upload else {
            return Ok(Err(self.not_allowed()));
        };
        if matches!(request.body, Body::Length(length) if length > largest) {
            return Ok(Err(TOO_LARGE));
        }
        // A part would take the whole object's place (RFC 9110 section 14.5).
        if request.field("content-range").is_some() {
            return Ok(Err(Refused::new(400, "parts of objects are not taken")));
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        if name.is_empty() {
            return Ok(Err(Refused::new(400, "an object has a name")));
        }
        if is_upload(path) {
            return Ok(Err(Refused::new(400, "a name of an unfinished upload")));
        }
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let Ok(folder) = openat2(&self.folder, folder, flags, Mode::empty(), WITHIN) else {
            return Ok(Err(Refused::new(409, "there is no such folder")));
        };
        let Ok(upload) = Upload::begin(self) else {
            return Ok(Err(Refused::new(507, "there is no room")));
        };
        if request.expect_continue {
            client.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if let Err(refused) = receive(client, request.body, &upload.file, largest).await? {
            return Ok(Err(refused));
        }
        let status = match upload.end(&folder, name) {
            Ok(true) => "201 Created",
            Ok(false) => "200 OK",
            Err(_) => return Ok(Err(Refused::new(409, "there is a folder of this name"))),
        };
        empty(client, status, request.keep_alive).await
    }
}

/// Range is defined for GET alone (RFC 9110 section 14.2).
fn requested_part(request: &Request, size: u64) -> Part {
    let counts = request.method == Method::Get && request.field("if-range").is_none();
    part(request.field("range").filter(|_| counts), size)
}

async fn empty(client: &mut ClientConnection, status: &str, keep_alive: bool) -> Answer {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n").into_bytes();
    write_end(&mut head, keep_alive);
    client.send(&head).await?;
    Ok(Ok(()))
}

/// A refusal is sent to the client; an error resets its connection.
type Answer = io::Result<Result<(), Refused>>;

impl Server for Objects {
    type State = ();

    async fn serve(&self, client: &mut ClientConnection, _state: &mut ()) -> NextStep {
        match next_request(client, &self.limits).await {
            Ok(request) => self.answer(client, &request).await.unwrap_or(NextStep::Reset),
            Err(next_step) => next_step,
        }
    }
}

/// Whether a part of the path is a name of [`Upload`]s.
fn is_upload(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with(UPLOAD))
}

/// Removes uploads that nobody holds.
fn remove_abandoned(folder: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(UPLOAD.as_bytes()) && is_abandoned(folder, name) {
            // What is left is no object either.
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
    Ok(())
}

fn is_abandoned(folder: &OwnedFd, name: &CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = openat(folder, name, flags, Mode::empty());
    opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// A file that is not an object yet; dropping it deletes the file. It is locked: another process leaves it alone.
struct Upload<'a> {
    objects: &'a Objects,
    name: String,
    file: File,
}

impl<'a> Upload<'a> {
    /// Another process may have had our number (`pid_namespaces(7)`): its names are passed over.
    fn begin(objects: &'a Objects) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        loop {
            let number = objects.uploads.fetch_add(1, Ordering::Relaxed);
            let name = format!("{UPLOAD}{}-{number}", std::process::id());
            match openat(&objects.folder, &name, flags, Mode::from_raw_mode(0o644)) {
                Err(Errno::EXIST) => {}
                opened => {
                    let file = File::from(opened?);
                    // Where a file system has no locks, nothing is removed.
                    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                    return Ok(Self { objects, name, file });
                }
            }
        }
    }

    /// Returns whether the object is new, as far as the file system can tell (RFC 9110 section 9.3.4).
    fn end(self, folder: &OwnedFd, name: &str) -> Result<bool, Errno> {
        let uploads = &self.objects.folder;
        match renameat_with(uploads, &self.name, folder, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST | Errno::INVAL) => renameat(uploads, &self.name, folder, name).map(|()| false),
            renamed => renamed.map(|()| true),
        }
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        // Without effect if it has become an object.
        let _ = unlinkat(&self.objects.folder, &self.name, AtFlags::empty());
    }
}

/// Writes the request's content, of at most so many bytes, to the file.
async fn receive(client: &mut ClientConnection, body: Body, mut file: &File, mut left: u64) -> Answer {
    let mut reader = BodyReader::new(body);
    while !reader.has_ended() {
        if client.inbox.is_empty() && client.read_more().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let step = match reader.step(&client.inbox) {
            Ok(step) => step,
            Err(bad) => return Ok(Err(bad.into())),
        };
        if step.used == 0 && client.read_more().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some(rest) = left.checked_sub(step.data.len() as u64) else {
            return Ok(Err(TOO_LARGE));
        };
        left = rest;
        if file.write_all(&client.inbox[step.data]).is_err() {
            return Ok(Err(Refused::new(507, "there is no room")));
        }
        client.inbox.drain(..step.used);
    }
    Ok(Ok(()))
}

/// The path below the folder, of one with a query; `None` if no file can have it.
fn path_of(path: &str) -> Option<String> {
    let path = path.split('?').next()?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let path = path.trim_start_matches('/');
    (!path.is_empty() && !path.contains('\0')).then(|| path.to_owned())
}

/// With the length of the content.
fn write_head(out: &mut Vec<u8>, part: Part, metadata: &Metadata, keep_alive: bool) -> u64 {
    let size = metadata.len();
    let (status, length) = match part {
        Part::Whole => ("200 OK", size),
        Part::Some { length, .. } => ("206 Partial Content", length),
        Part::Missing => ("416 Range Not Satisfiable", 0),
    };
    let mut field = |line: std::fmt::Arguments<'_>| {
        let _ = write!(out, "{line}\r\n"); // a Vec takes everything
    };
    field(format_args!("HTTP/1.1 {status}"));
    match part {
        Part::Whole => {}
        Part::Some { from, length } => {
            let last = from + length - 1;
            field(format_args!("Content-Range: bytes {from}-{last}/{size}"));
        }
        Part::Missing => field(format_args!("Content-Range: bytes */{size}")),
    }
    field(format_args!("Content-Length: {length}"));
    field(format_args!("Content-Type: application/octet-stream"));
    field(format_args!("Accept-Ranges: bytes"));
    if let Ok(modified) = metadata.modified() {
        field(format_args!("Last-Modified: {}", HttpDate::from(modified)));
    }
    write_end(out, keep_alive);
    length
}

fn write_end(out: &mut Vec<u8>, keep_alive: bool) {
    let now = HttpDate::from(SystemTime::now());
    let _ = write!(out, "Date: {now}\r\n"); // a Vec takes everything
    if !keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tributary_proto::http::HeadReader;

    use super::*;

    #[test]
    fn a_path_is_decoded_and_has_no_query() {
        assert_eq!(path_of("/a%20b/c?d"), Some("a b/c".to_owned()));
        assert_eq!(path_of("//a"), Some("a".to_owned()));
        for none in ["", "/", "/?a", "/a%00b", "/%ff"] {
            assert_eq!(path_of(none), None, "{none}");
        }
    }

    #[test]
    fn only_a_get_may_ask_for_a_part() {
        for (method, range, expected) in [
            ("GET", "0-9", Part::Some { from: 0, length: 10 }),
            ("HEAD", "0-9", Part::Whole),
            ("GET", "100-", Part::Missing),
            ("HEAD", "100-", Part::Whole),
        ] {
            let text = format!("{method} /a HTTP/1.1\r\nHost: a\r\nRange: bytes={range}\r\n\r\n");
            let read = HeadReader::new().request(text.as_bytes(), &HeadLimits::default());
            let (request, _) = read.expect("accepted").expect("whole");
            assert_eq!(requested_part(&request, 100), expected, "{text}");
        }
    }

    /// An empty folder for a test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        folder
    }

    #[test]
    fn uploads_that_a_killed_process_left_are_gone_and_those_of_another_one_stay() {
        let folder = folder("uploads");
        let objects = Objects::below(&folder, None).expect("opened");
        let left = format!("{UPLOAD}1-0");
        std::fs::write(folder.join(&left), "half").expect("written");
        let upload = Upload::begin(&objects).expect("begun");
        for name in [&left, &upload.name] {
            assert!(objects.open(name).is_none(), "{name} is no object");
        }
        let next = Objects::below(&folder, None).expect("opened");
        assert!(!folder.join(&left).exists());
        assert!(folder.join(&upload.name).exists());
        // The same process number, and the same count.
        let other = Upload::begin(&next).expect("begun");
        assert_ne!(other.name, upload.name);
        let end = openat(CWD, &folder, OFlags::PATH, Mode::empty()).expect("opened");
        assert!(other.end(&end, "object").expect("ended"), "it is new");
        assert!(!upload.end(&end, "object").expect("ended"), "it takes its place");
        assert_eq!(std::fs::read_dir(&folder).expect("read").count(), 1);
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn nothing_above_the_folder_is_an_object() {
        let folder = folder("objects");
        std::fs::create_dir_all(folder.join("below")).expect("made");
        std::fs::write(folder.join("secret"), "s").expect("written");
        std::fs::write(folder.join("below/object"), "o").expect("written");
        std::os::unix::fs::symlink("../secret", folder.join("below/link")).expect("made");
        let objects = Objects::below(&folder.join("below"), None).expect("opened");
        assert!(objects.open("object").is_some());
        for path in ["../secret", "link", "/etc/passwd", "a/../../secret", "."] {
            assert!(objects.open(path).is_none(), "{path}");
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
