//! Which file a path means, and whether it may be opened.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::{FsType, statfs};

use crate::core::error::{Error, ErrorKind};
use crate::core::options::Options;
use crate::os::errors;
use crate::os::limits;
use crate::os::stat::{self, Stamp};

/// Device and inode.
pub(crate) type Identity = (u64, u64);

/// A database file, by its path without symbolic links.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// Of the -wal, the -shm and our own side file.
    side_paths: [PathBuf; 3],
    /// Of the rollback modes.
    journal: PathBuf,
    /// All four and the folder, as the system calls take them.
    names: [CString; 5],
    pub(crate) options: Options,
}

impl File {
    /// Finds the file, and refuses what must not be opened. Opens nothing.
    pub(crate) fn find(path: &Path, options: &Options) -> Result<File, Error> {
        refuse_names(path)?;
        let found = match path.metadata() {
            Ok(metadata) => {
                if !metadata.is_file() {
                    return Err(cannot_open(
                        path,
                        "it is not a regular file; give the path of a database file",
                    ));
                }
                if metadata.nlink() > 1 {
                    let why = format!(
                        "the file has {} hard links; SQLite would give each name a write-ahead log of its own. Remove \
                         the other names, or make them symbolic links",
                        metadata.nlink()
                    );
                    return Err(error_at(path, ErrorKind::Unsupported, why));
                }
                if metadata.len() == 1 {
                    // SQLite takes it for empty (os_unix.c, unixFileSize) and would write over it.
                    let why = "it has one byte and is no database; give the path of another file";
                    return Err(error_at(path, ErrorKind::NotADatabase, why));
                }
                let found = path.canonicalize().map_err(|error| not_found(path, &error))?;
                if is_mount_point(&found) {
                    let why = "the file is a mount of its own; SQLite would give it another write-ahead log than by its \
                               other name. Mount its folder instead";
                    return Err(error_at(path, ErrorKind::Unsupported, why));
                }
                found
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing(path, options)?,
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                let why =
                    "a name in the path is longer than its filesystem allows, mostly 255 bytes; shorten it";
                return Err(error_at(path, ErrorKind::InvalidArgument, why));
            }
            Err(error) => return Err(not_found(path, &error)),
        };
        refuse_long(&found)?;
        let beside = |suffix: &str| {
            let mut path = found.clone().into_os_string();
            path.push(suffix);
            PathBuf::from(path)
        };
        let side_paths = ["-wal", "-shm", "-fencepost"].map(beside);
        let journal = beside("-journal");
        let [wal, shm, board] = &side_paths;
        // No path that was found has an inner NUL.
        let names = [found.as_path(), wal, shm, board, found.parent().unwrap_or(Path::new("/"))]
            .map(|path| CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default());
        let file = File { path: found, side_paths, journal, names, options: *options };
        if !options.allow_network_filesystem {
            file.refuse_network_filesystem()?;
        }
        Ok(file)
    }

    /// The folder that the file and SQLite's side files are in.
    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn refuse_network_filesystem(&self) -> Result<(), Error> {
        // The file may be a mount of its own.
        let status = statfs(&self.path).or_else(|_| statfs(self.folder())).map_err(|error| {
            let why = errors::refused("statfs of its folder", &error.into());
            let message = format!("{}, or pass ALLOW_NETWORK_FILESYSTEM for a local disk", why.message());
            self.error(why.kind(), message)
        })?;
        match network_filesystem(status.filesystem_type()) {
            None => Ok(()),
            Some(name) => Err(self.error(
                ErrorKind::Unsupported,
                format!(
                    "it is on a network filesystem ({name}), where locks cannot be relied on; put it on a local \
                     disk, or pass ALLOW_NETWORK_FILESYSTEM at your own risk"
                ),
            )),
        }
    }

    /// What the path names now.
    pub(crate) fn identity(&self) -> Option<Identity> {
        stat::identity(&self.names[0])
    }

    /// What changes whenever a name in the folder is made, removed or given to another file.
    pub(crate) fn folder_stamp(&self) -> Option<Stamp> {
        stat::stamp(&self.names[4])
    }

    /// Our own side file: see `page`.
    pub(crate) fn page_path(&self) -> &Path {
        &self.side_paths[2]
    }

    /// What the names of the -wal, the -shm and our own side file name now.
    pub(crate) fn side_files(&self) -> [Option<Identity>; 3] {
        [1, 2, 3].map(|which: usize| stat::identity(&self.names[which]))
    }

    /// Syncs all that a commit may have left to be synced, whoever made it: the log, or the journal and its removal.
    /// SQLite takes no locks on these files, so they may be opened and closed.
    pub(crate) fn sync_side_files(&self) -> io::Result<()> {
        for path in [&self.side_paths[0], &self.journal] {
            match fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
                .open(path)
            {
                Ok(file) => file.sync_data()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        fs::File::open(self.folder())?.sync_all()
    }

    /// Writes what is in the log once more, and syncs it. Nobody may write to it meanwhile. In the rollback modes there
    /// is none, and SQLite itself has synced all but the removal of the journal.
    pub(crate) fn write_log_again(&self) -> io::Result<()> {
        let log = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&self.side_paths[0]);
        let log = match log {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.sync_side_files(),
            other => other?,
        };
        let mut part = vec![0; 1 << 16];
        let mut at = 0;
        loop {
            let length = log.read_at(&mut part, at)?;
            if length == 0 {
                return log.sync_data();
            }
            log.write_all_at(&part[..length], at)?;
            at += length as u64;
        }
    }

    /// Opens the write-ahead log to sync it, `None` when there is none.
    pub(crate) fn open_log(&self) -> Result<Option<fs::File>, Error> {
        let log = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&self.side_paths[0]);
        match log {
            Ok(log) => Ok(Some(log)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(errors::not_opened(&self.side_paths[0], &error)),
        }
    }

    /// Gives the side files the rights of the database where they differ and this process may: another user may have
    /// been let in since they were made.
    pub(crate) fn align_side_files(&self) {
        self.side_paths.iter().for_each(|path| self.align(path));
    }

    /// Gives one side file the mode of the database, its group, and for root its owner.
    fn align(&self, path: &Path) {
        // With O_PATH no lock of another copy of SQLite is dropped when it is closed, and /proc leads to nothing else.
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
        let (Ok(opened), Ok(database)) = (opened, self.path.metadata()) else { return };
        let Ok(found) = opened.metadata() else { return };
        let rights = |status: &fs::Metadata| (status.mode() & 0o777, status.uid(), status.gid());
        let is_ours = [limits::user(), database.uid()].contains(&found.uid());
        if !found.is_file() || found.nlink() != 1 || !is_ours || rights(&found) == rights(&database) {
            return;
        }
        let name = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let owner = Some(database.uid()).filter(|uid| *uid != found.uid());
        // Who may not do so is told of it when the file cannot be used.
        let _ = chown(&name, owner, Some(database.gid()));
        let _ = fs::set_permissions(&name, fs::Permissions::from_mode(database.mode() & 0o777));
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.path.metadata().is_ok_and(|status| status.len() == 0)
    }

    /// Why a file in WAL mode cannot be read: SQLite's side files are not there, and may not be made.
    pub(crate) fn lacks_side_files(&self) -> Option<String> {
        let [wal, shm, _] = self.side_files();
        let is_readable = stat::access(&self.names[0], libc::R_OK).is_ok();
        if wal.is_some() && shm.is_some() || !is_readable || self.journal.symlink_metadata().is_ok() {
            return None;
        }
        let (why, todo) = match stat::access(&self.names[4], libc::W_OK | libc::X_OK).err()? {
            Errno::EROFS => {
                ("its filesystem is mounted to be read only".to_owned(), "mount it to be written")
            }
            _ => (
                format!("this user ({}) may not make them in the folder", limits::user()),
                "give it the right to write the folder",
            ),
        };
        Some(format!(
            "its -wal and -shm, without which SQLite reads no file in WAL mode, are not there, and {why}; have a program \
             that may make them open it (fencepost leaves them there when it closes it), or {todo}"
        ))
    }

    /// Which of the files this user may not write, and why; or the folder, where SQLite must make files.
    pub(crate) fn in_the_way(&self) -> Option<String> {
        let [wal, shm, board] = &self.side_paths;
        let refused = |path: &Path, rights| {
            let path = CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
            stat::access(&path, rights).err().filter(|error| *error != Errno::ENOENT)
        };
        for path in [&self.path, wal, shm, &self.journal, board] {
            match refused(path, libc::R_OK | libc::W_OK) {
                Some(Errno::EACCES | Errno::EPERM) => {
                    let name = path.file_name().unwrap_or_default().display();
                    return Some(format!("{name}: {}", errors::owned_by_another(path)));
                }
                Some(Errno::EROFS) => return Some("the filesystem is mounted to be read only".to_owned()),
                _ => {}
            }
        }
        refused(self.folder(), libc::W_OK | libc::X_OK).map(|_| {
            format!("this user ({}) may not make files in the folder, as SQLite must", limits::user())
        })
    }

    /// An error about this file.
    pub(crate) fn error(&self, kind: ErrorKind, message: impl std::fmt::Display) -> Error {
        error_at(&self.path, kind, message)
    }
}

/// An error about the file at a path. The reason comes first, as a long message may be cut at its end.
fn error_at(path: &Path, kind: ErrorKind, why: impl std::fmt::Display) -> Error {
    Error::new(kind, format!("{why} ({})", shown(path)))
}

/// A path as it stands in a message: a long one without its middle.
fn shown(path: &Path) -> String {
    const END: usize = 98;
    let path = path.to_string_lossy();
    if path.len() <= 2 * END + "…".len() {
        return path.into_owned();
    }
    let (head, tail) = (path.floor_char_boundary(END), path.ceil_char_boundary(path.len() - END));
    format!("{}…{}", &path[..head], &path[tail..])
}

/// Whether the file is a mount of its own, such as a single file that a container is given. By its other name it would
/// have another write-ahead log. Without /proc there is no telling.
fn is_mount_point(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // proc_pid_mountinfo(5): the fifth field, with blanks and backslashes as octal escapes.
    let escaped = path.to_string_lossy().replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011");
    let escaped = escaped.replace('\n', "\\012");
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(&escaped))
}

/// Of a path that cannot be followed.
fn not_found(path: &Path, error: &io::Error) -> Error {
    let why = match error.raw_os_error() {
        Some(libc::EACCES) => errors::not_opened(path, error),
        _ => errors::refused("the path", error),
    };
    error_at(path, why.kind(), format_args!("cannot be opened: {}", why.message()))
}

fn cannot_open(path: &Path, why: &str) -> Error {
    error_at(path, ErrorKind::CannotOpen, format_args!("cannot be opened: {why}"))
}

fn refuse_names(path: &Path) -> Result<(), Error> {
    let name = path.as_os_str().as_encoded_bytes();
    if name.contains(&0) {
        return Err(Error::new(ErrorKind::InvalidArgument, "path has an inner NUL"));
    }
    if name.len() > MAX_GIVEN {
        let why = format!("path has {} bytes, and the system takes {MAX_GIVEN}; shorten it", name.len());
        return Err(error_at(path, ErrorKind::InvalidArgument, why));
    }
    let why = if name.is_empty() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the empty path would be a database that is deleted on close; give the path of a file",
        ));
    } else if name == b":memory:" {
        "a database in memory is shared with no other program"
    } else if name.starts_with(b"file:") {
        "URIs can switch off SQLite's locks"
    } else {
        return Ok(());
    };
    Err(error_at(path, ErrorKind::Unsupported, format_args!("{why}; give the path of a file")))
}

/// The longest path that is taken as it is given: PATH_MAX without the NUL (path_resolution(7)).
const MAX_GIVEN: usize = libc::PATH_MAX as usize - 1;

/// The longest path without symbolic links: "-journal" is added to it, and SQLite takes 512 bytes (os_unix.c,
/// MAX_PATHNAME).
const MAX_FOUND: usize = 512 - "-journal".len();

/// The longest name: "-fencepost" is added to it, and most filesystems take NAME_MAX bytes.
const MAX_NAME: usize = libc::NAME_MAX as usize - "-fencepost".len();

fn refuse_long(found: &Path) -> Result<(), Error> {
    let (whole, name) = (found.as_os_str().len(), found.file_name().map_or(0, std::ffi::OsStr::len));
    let why = if name > MAX_NAME {
        format!(
            "the file's name has {name} bytes, and may have {MAX_NAME}, as names are made of it; shorten it"
        )
    } else if whole > MAX_FOUND {
        format!(
            "the path, from / on and without symbolic links, has {whole} bytes, and SQLite takes {MAX_FOUND}; move the \
             file to a folder with a shorter path"
        )
    } else {
        return Ok(());
    };
    Err(error_at(found, ErrorKind::InvalidArgument, why))
}

/// Where a file that is not there would be made.
fn missing(path: &Path, options: &Options) -> Result<PathBuf, Error> {
    if options.open_existing || options.read_only {
        return Err(cannot_open(path, "there is no such file, and the options say not to make it"));
    }
    if path.is_symlink() {
        return Err(cannot_open(
            path,
            "it is a symbolic link to a file that is not there; make the file first",
        ));
    }
    // `Path` overlooks a slash at the end.
    let name = path.file_name().filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"));
    let Some(name) = name else {
        return Err(cannot_open(path, "it names a folder; give the path of a file"));
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => cannot_open(path, &format!("its folder: {error}; make the folder first")),
        _ => not_found(path, &error),
    })?;
    Ok(folder.join(name))
}

/// The name of a filesystem whose locks are another machine's affair, by its magic number (statfs(2)).
fn network_filesystem(kind: FsType) -> Option<&'static str> {
    // The type of the number differs between C libraries; the numbers have 32 bits.
    Some(match kind.0 as u32 {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x7461_636f => "OCFS2",
        0x0116_1970 => "GFS2",
        0x786f_4256 => "vboxsf",
        0xaad7_aaea => "PanFS",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_shown_without_its_middle_and_after_the_reason() {
        let short = "/s".repeat(99);
        assert_eq!(shown(Path::new(&short)), short);
        let long = format!("/{}/jobs.db", "가".repeat(1000));
        let message = error_at(Path::new(&long), ErrorKind::Io, "the reason").message().to_owned();
        assert!(message.starts_with("the reason (/가") && message.ends_with("가/jobs.db)"), "{message}");
        assert!(message.len() < 220 && message.contains("가…가"), "{message}");
    }

    #[test]
    fn side_files_get_the_rights_that_the_database_has_by_now() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        fs::write(&path, "").unwrap();
        let file = File::find(&path, &Options::default()).unwrap();
        for path in &file.side_paths {
            fs::write(path, "").unwrap();
            set(path, 0o600);
        }
        for rights in [0o664, 0o640] {
            set(&path, rights);
            file.align_side_files();
            assert_eq!(file.side_paths.each_ref().map(|path| mode(path)), [rights; 3]);
        }
    }

    /// Whoever has planted it.
    #[test]
    fn nothing_but_a_side_file_gets_other_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let other = folder.path().join("other");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        fs::write(&other, "").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        let file = File::find(&path, &Options::default()).unwrap();
        let [wal, shm, page] = &file.side_paths;
        std::os::unix::fs::symlink(&other, wal).unwrap();
        fs::hard_link(&other, shm).unwrap();
        fs::create_dir(page).unwrap();
        let before = page.metadata().unwrap().mode();
        file.align_side_files();
        assert_eq!(other.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(page.metadata().unwrap().mode(), before);
    }
}
