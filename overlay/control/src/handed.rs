//! Routes handed to the converter: a file, and the command that has it read anew.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// What takes longer does not come to an end.
const LONGEST_RELOAD: Duration = Duration::from_secs(20);

/// The file, and whether the converter knows what is in it.
#[derive(Debug)]
pub struct Handed {
    file: PathBuf,
    reload: String,
    /// What the converter was last told of; nothing yet of what an earlier process wrote.
    told: Option<String>,
    /// Whether it could not be told of what is in the file.
    owes: bool,
}

impl Handed {
    /// A converter that reads `file` anew when the shell has run `reload`.
    pub fn new(file: PathBuf, reload: String) -> Self {
        Self {
            file,
            reload,
            told: None,
            owes: false,
        }
    }

    /// Whether the converter has routes: a file to begin with, and one that nobody failed to have read.
    pub fn has_routes(&self) -> bool {
        self.file.exists() && !self.owes
    }

    /// Put `text` into the file and have it read, if that was not done yet; an error says which of the two failed.
    pub async fn over(&mut self, text: String) -> Result<(), String> {
        if self.told.as_ref() == Some(&text) {
            return Ok(());
        }
        (self.told, self.owes) = (None, true);
        self.replace(&text)
            .map_err(|error| format!("{}: {error}", self.file.display()))?;
        self.have_it_read().await?;
        (self.told, self.owes) = (Some(text), false);
        Ok(())
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        if fs::read_to_string(&self.file).is_ok_and(|before| before == text) {
            return Ok(());
        }
        let mut new = self.file.clone().into_os_string();
        new.push(".new");
        fs::write(&new, text)?;
        fs::rename(&new, &self.file)
    }

    async fn have_it_read(&self) -> Result<(), String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.reload])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let how = match timeout(LONGEST_RELOAD, command.output()).await {
            Ok(Ok(output)) if output.status.success() => return Ok(()),
            Ok(Ok(output)) => {
                let complaint = String::from_utf8_lossy(&output.stderr);
                let last = complaint.trim().lines().last().unwrap_or_default();
                format!("{}: {last}", output.status)
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not done within {} s", LONGEST_RELOAD.as_secs()),
        };
        Err(format!("{}: {how}", self.reload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own that goes with the test; in it `reloads` counts a line each.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir()
                .join(format!("tributary-handed-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn handed(&self) -> Handed {
            let reload = format!("echo again >>{}", self.0.join("reloads").display());
            Handed::new(self.0.join("routes"), reload)
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
        let mut handed = folder.handed();
        assert!(!handed.has_routes());
        for (text, reloads) in [("one", 1), ("one", 1), ("two", 2), ("one", 3)] {
            handed.over(text.into()).await.unwrap();
            assert_eq!(folder.reloads(), reloads);
            assert_eq!(fs::read_to_string(&handed.file).unwrap(), text);
        }
        folder.handed().over("one".into()).await.unwrap();
        assert_eq!(folder.reloads(), 4, "it may have missed the last one");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn what_failed_is_done_again() {
        let folder = Folder::new("again");
        let mut handed = folder.handed();
        let works = std::mem::replace(&mut handed.reload, "echo no such unit >&2; exit 5".into());
        let refusal = handed.over("one".into()).await.unwrap_err();
        assert!(
            refusal.ends_with("exit status: 5: no such unit"),
            "{refusal}"
        );
        assert!(handed.file.exists() && !handed.has_routes());
        handed.reload = works;
        handed.over("one".into()).await.unwrap();
        assert!(handed.has_routes());
        assert_eq!(folder.reloads(), 1);
        fs::create_dir(folder.0.join("routes.new")).unwrap();
        let refusal = handed.over("two".into()).await.unwrap_err();
        assert!(refusal.contains("routes: "), "{refusal}");
        assert_eq!(fs::read_to_string(&handed.file).unwrap(), "one");
    }
}
