//! Which file a path means, and whether it may be opened.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::statfs::{FsType, statfs};
use nix::unistd::{AccessFlags, faccessat};

use super::neighbour::{self, Stamp};
use crate::db::Options;
use crate::error::{Error, ErrorKind};

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
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "{}: the file has {} hard links; SQLite would give each name a write-ahead log of its \
                             own. Remove the other names, or make them symbolic links",
                            path.display(),
                            metadata.nlink()
                        ),
                    ));
                }
                if metadata.len() == 1 {
                    // SQLite takes it for empty (os_unix.c, unixFileSize) and would write over it.
                    let message = format!("{}: it has one byte and is no database", path.display());
                    return Err(Error::new(ErrorKind::NotADatabase, message));
                }
                let found = path.canonicalize().map_err(|error| cannot_open(path, &error.to_string()))?;
                if is_mount_point(&found) {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "{}: the file is a mount of its own; SQLite would give it another write-ahead log than by \
                             its other name. Mount its folder instead",
                            path.display()
                        ),
                    ));
                }
                found
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing(path, options)?,
            Err(error) => {
                return Err(cannot_open(path, &format!("{error}; look at the path and its rights")));
            }
        };
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
        let status = statfs(&self.path)
            .or_else(|_| statfs(self.folder()))
            .map_err(|error| cannot_open(&self.path, &format!("statfs of its folder: {error}")))?;
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
        neighbour::identity(&self.names[0])
    }

    /// What changes whenever a name in the folder is made, removed or given to another file.
    pub(crate) fn folder_stamp(&self) -> Option<Stamp> {
        neighbour::stamp(&self.names[4])
    }

    /// Our own side file: see `gate`.
    pub(crate) fn board_path(&self) -> &Path {
        &self.side_paths[2]
    }

    /// What the names of the -wal, the -shm and our own side file name now.
    pub(crate) fn side_files(&self) -> [Option<Identity>; 3] {
        [1, 2, 3].map(|which: usize| neighbour::identity(&self.names[which]))
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
            Err(error) => Err(Error::new(
                ErrorKind::CannotOpen,
                format!("its -wal: {error}; allow this user to read it"),
            )),
        }
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.path.metadata().is_ok_and(|status| status.len() == 0)
    }

    /// Whether this process may make files in the folder, as SQLite must.
    pub(crate) fn folder_is_writable(&self) -> bool {
        faccessat(AT_FDCWD, self.folder(), AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok()
    }

    /// An error about this file.
    pub(crate) fn error(&self, kind: ErrorKind, message: impl std::fmt::Display) -> Error {
        Error::new(kind, format!("{}: {message}", self.path.display()))
    }
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

fn cannot_open(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::CannotOpen, format!("{}: cannot be opened: {why}", path.display()))
}

fn refuse_names(path: &Path) -> Result<(), Error> {
    let name = path.as_os_str().as_encoded_bytes();
    if name.contains(&0) {
        return Err(Error::new(ErrorKind::InvalidArgument, "path has an inner NUL"));
    }
    let why = if name.is_empty() {
        "the empty path would be a database that is deleted on close"
    } else if name == b":memory:" {
        "a database in memory is shared with no other program"
    } else if name.starts_with(b"file:") {
        "URIs can switch off SQLite's locks"
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("path {:?}: {why}; give the path of a file", path.display().to_string()),
    ))
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
    let folder = folder
        .canonicalize()
        .map_err(|error| cannot_open(path, &format!("its folder: {error}; make the folder first")))?;
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
