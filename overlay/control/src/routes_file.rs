//! The converter's routes file, and the command that makes the converter reload it.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// A reload that takes longer is killed.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The file, and whether the converter has loaded it.
#[derive(Debug)]
pub struct RoutesFile {
    file: PathBuf,
    reload: String,
    /// The text that the converter last loaded; unknown after a restart of this process.
    applied: Option<String>,
    /// Whether the file has changed and the reload has not succeeded yet.
    is_pending: bool,
    /// Whether the last reload failed.
    has_failed: bool,
}

impl RoutesFile {
    /// `reload` is a shell command.
    pub fn new(file: PathBuf, reload: String) -> Self {
        Self {
            file,
            reload,
            applied: None,
            is_pending: false,
            has_failed: false,
        }
    }

    /// Whether there is a file, and the converter has loaded it as far as is known.
    pub fn has_routes(&self) -> bool {
        self.file.exists() && !self.is_pending
    }

    /// If there is no file, writes `text` to it and reloads the converter, which cannot start without one; reloads it again
    /// if the last reload failed. The text does not count as loaded: that is for [`Self::apply`].
    pub async fn begin(&mut self, text: &str) -> Result<(), String> {
        if !self.file.exists() {
            self.is_pending = true;
            self.replace(text)?;
        } else if !self.has_failed {
            return Ok(());
        }
        self.run_reload().await
    }

    /// Writes `text` to the file and reloads the converter, unless both are done already. The error names the failed step.
    /// If it was for this text that it failed, the file is what it was: the converter would not start with it either.
    pub async fn apply(&mut self, text: String) -> Result<(), String> {
        if self.applied.as_ref() == Some(&text) && self.has_routes() {
            return Ok(());
        }
        let before = fs::read_to_string(&self.file).ok().filter(|before| *before != text);
        let done = self.load(&text).await;
        if let (Err(_), Some(before)) = (&done, before) {
            if self.load(&before).await.is_err() {
                // What fails here, too, is done again with the rest.
                let _ = self.replace(&text);
            }
        }
        done
    }

    async fn load(&mut self, text: &str) -> Result<(), String> {
        (self.applied, self.is_pending) = (None, true);
        self.replace(text)?;
        self.run_reload().await?;
        (self.applied, self.is_pending) = (Some(text.to_owned()), false);
        Ok(())
    }

    fn replace(&self, text: &str) -> Result<(), String> {
        self.write(text)
            .map_err(|error| format!("{}: {error}", self.file.display()))
    }

    /// Makes the file's folder, too: those in /run are gone with each boot.
    fn write(&self, text: &str) -> io::Result<()> {
        if fs::read_to_string(&self.file).is_ok_and(|before| before == text) {
            return Ok(());
        }
        let mut new = self.file.clone().into_os_string();
        new.push(".new");
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&new, text)?;
        fs::rename(&new, &self.file)
    }

    async fn run_reload(&mut self) -> Result<(), String> {
        let done = self.reload().await;
        self.has_failed = done.is_err();
        done
    }

    async fn reload(&self) -> Result<(), String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.reload])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let how = match timeout(RELOAD_TIMEOUT, command.output()).await {
            Ok(Ok(output)) if output.status.success() => return Ok(()),
            Ok(Ok(output)) => {
                let complaint = String::from_utf8_lossy(&output.stderr);
                let last = complaint.trim().lines().last().unwrap_or_default();
                format!("{}: {last}", output.status)
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not done within {} s", RELOAD_TIMEOUT.as_secs()),
        };
        Err(format!("{}: {how}", self.reload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary folder; each reload appends a line to `reloads` in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tributary-routes-file-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn routes_file(&self) -> RoutesFile {
            let reload = format!("echo again >>{}", self.0.join("reloads").display());
            RoutesFile::new(self.0.join("routes"), reload)
        }

        fn reloads(&self) -> usize {
            fs::read_to_string(self.0.join("reloads")).map_or(0, |text| text.lines().count())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[tokio::test]
    async fn the_converter_is_told_once_of_each_change_and_once_at_the_beginning() {
        let folder = Folder::new("once");
        let mut routes_file = folder.routes_file();
        assert!(!routes_file.has_routes());
        for (text, reloads) in [("one", 1), ("one", 1), ("two", 2), ("one", 3)] {
            routes_file.apply(text.into()).await.unwrap();
            assert_eq!(folder.reloads(), reloads);
            assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), text);
        }
        folder.routes_file().apply("one".into()).await.unwrap();
        assert_eq!(folder.reloads(), 4, "it may have missed the last one");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn at_the_beginning_there_is_a_file_in_its_folder_and_one_that_is_there_stays() {
        let folder = Folder::new("begin");
        let mut routes_file = folder.routes_file();
        routes_file.file = folder.0.join("run/routes");
        routes_file.begin("direct").await.unwrap();
        assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), "direct");
        assert_eq!(folder.reloads(), 1);
        assert!(!routes_file.has_routes(), "they are of no table");
        routes_file.begin("other").await.unwrap();
        assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), "direct");
        assert_eq!(folder.reloads(), 1);
    }

    #[tokio::test]
    async fn routes_that_the_converter_refuses_are_taken_back_and_tried_again() {
        let folder = Folder::new("refused");
        let mut routes_file = folder.routes_file();
        let routes = routes_file.file.display();
        let refuses = format!("! grep -q wrong {routes} && {}", routes_file.reload);
        let works = std::mem::replace(&mut routes_file.reload, refuses);
        routes_file.apply("one".into()).await.unwrap();
        for reloads in [2, 3] {
            routes_file.apply("wrong".into()).await.unwrap_err();
            assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), "one");
            assert!(routes_file.has_routes());
            assert_eq!(folder.reloads(), reloads, "with what was there before");
        }
        routes_file.reload = "false".into();
        routes_file.apply("new".into()).await.unwrap_err();
        assert_eq!(
            fs::read_to_string(&routes_file.file).unwrap(),
            "new",
            "the old ones do not load either"
        );
        routes_file.reload = works;
        routes_file.apply("wrong".into()).await.unwrap();
        assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), "wrong");
    }

    #[tokio::test]
    async fn a_file_that_somebody_removed_is_written_again() {
        let folder = Folder::new("removed");
        let mut routes_file = folder.routes_file();
        routes_file.apply("one".into()).await.unwrap();
        for (begins, reloads) in [(true, 3), (false, 4)] {
            fs::remove_file(&routes_file.file).unwrap();
            if begins {
                routes_file.begin("direct").await.unwrap();
            }
            routes_file.apply("one".into()).await.unwrap();
            assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), "one");
            assert_eq!(folder.reloads(), reloads);
        }
    }

    #[tokio::test]
    async fn a_reload_that_failed_at_the_beginning_is_done_again() {
        let folder = Folder::new("begin-again");
        let mut routes_file = folder.routes_file();
        let works = std::mem::replace(&mut routes_file.reload, "exit 5".into());
        routes_file.begin("direct").await.unwrap_err();
        routes_file.reload = works;
        for _ in 0..2 {
            routes_file.begin("other").await.unwrap();
            assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), "direct");
            assert_eq!(folder.reloads(), 1);
        }
    }

    #[tokio::test]
    async fn what_failed_is_done_again() {
        let folder = Folder::new("again");
        let mut routes_file = folder.routes_file();
        let works = std::mem::replace(&mut routes_file.reload, "echo no such unit >&2; exit 5".into());
        let refusal = routes_file.apply("one".into()).await.unwrap_err();
        assert!(refusal.ends_with("exit status: 5: no such unit"), "{refusal}");
        assert!(routes_file.file.exists() && !routes_file.has_routes());
        routes_file.reload = works;
        routes_file.apply("one".into()).await.unwrap();
        assert!(routes_file.has_routes());
        assert_eq!(folder.reloads(), 1);
        fs::create_dir(folder.0.join("routes.new")).unwrap();
        let refusal = routes_file.apply("two".into()).await.unwrap_err();
        assert!(refusal.contains("routes: "), "{refusal}");
        assert_eq!(fs::read_to_string(&routes_file.file).unwrap(), "one");
    }
}
