//! Files that are set back to an earlier state: a backup restored in whatever way, a file emptied or replaced. No fence
//! is granted a second time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fencepost::{Db, ErrorKind, Options};

struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn open(&self) -> Db {
        Db::open(&self.path, &Options::default()).unwrap()
    }

    fn backup(&self) -> PathBuf {
        self.path.with_extension("backup")
    }
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    Place { _folder: folder, path }
}

/// Another program, with another copy of SQLite.
fn sqlite3(path: &Path, statement: &str) {
    let run = Command::new("sqlite3").arg(path).arg(statement).output().expect("the sqlite3 command");
    assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// Claims a job after its last lease is over.
fn claim(db: &Db, id: &str) -> i64 {
    let now = db.state(id).unwrap().unwrap().until + 1.0;
    db.claim(id, "w", now, 10.0).unwrap().unwrap()
}

/// A file with two jobs of which `a` was granted up to 2 when a backup was made, and up to 5 since then; `b` was 9.
fn with_a_backup(place: &Place) -> Db {
    let db = place.open();
    db.init_db().unwrap();
    db.enqueue_many(&["a", "b"]).unwrap().unwrap();
    (1..=9).for_each(|fence| assert_eq!(claim(&db, "b"), fence));
    (1..=2).for_each(|fence| assert_eq!(claim(&db, "a"), fence));
    sqlite3(&place.path, &format!(".backup '{}'", place.backup().display()));
    (3..=5).for_each(|fence| assert_eq!(claim(&db, "a"), fence));
    db
}

#[test]
fn a_backup_restored_into_an_open_file_grants_no_fence_again() {
    let place = place();
    let db = with_a_backup(&place);
    sqlite3(&place.path, &format!(".restore '{}'", place.backup().display()));
    assert_eq!(db.state("a").unwrap().unwrap().fence, 2);
    assert_eq!(claim(&db, "a"), 10);
    assert_eq!(claim(&db, "b"), 10);
    assert_eq!(claim(&db, "a"), 11);
}

#[test]
fn a_backup_put_in_the_place_of_the_file_grants_no_fence_again() {
    let place = place();
    drop(with_a_backup(&place));
    fs::rename(place.backup(), &place.path).unwrap();
    assert_eq!(claim(&place.open(), "a"), 10);
}

#[test]
fn a_backup_copied_back_while_nobody_has_the_file_open_grants_no_fence_again() {
    let place = place();
    drop(with_a_backup(&place));
    fs::copy(place.backup(), &place.path).unwrap();
    assert_eq!(claim(&place.open(), "a"), 10);
}

#[test]
fn a_backup_without_a_floor_gets_one() {
    let place = place();
    let db = with_a_backup(&place);
    let triggers = ["deleted", "renamed", "replacing", "replaced"];
    let drop_all: String = triggers.iter().map(|name| format!("DROP TRIGGER fencepost_{name};")).collect();
    sqlite3(&place.backup(), &format!("{drop_all} DROP TABLE fencepost_meta"));
    sqlite3(&place.path, &format!(".restore '{}'", place.backup().display()));
    assert_eq!(claim(&db, "a"), 10);
    assert_eq!(claim(&db, "b"), 10);
}

#[test]
fn the_floor_stays_lifted_when_the_first_call_after_it_is_refused() {
    let place = place();
    let db = with_a_backup(&place);
    sqlite3(&place.path, &format!(".restore '{}'", place.backup().display()));
    assert!(db.enqueue("a").unwrap().is_err());
    fs::remove_file(place.path.with_extension("db-fencepost")).unwrap();
    drop(db);
    assert_eq!(claim(&place.open(), "a"), 10);
}

#[test]
fn a_file_that_was_not_set_back_goes_on_as_before() {
    let place = place();
    let db = with_a_backup(&place);
    sqlite3(&place.path, "CREATE TABLE another(x); INSERT INTO jobs(id) VALUES ('c')");
    assert_eq!(claim(&db, "a"), 6);
    sqlite3(&place.path, &format!(".backup '{}'", place.backup().display()));
    sqlite3(&place.path, &format!(".restore '{}'", place.backup().display()));
    assert_eq!((claim(&db, "a"), claim(&db, "b"), claim(&db, "c")), (7, 10, 1));
    drop(db);
    assert_eq!(claim(&place.open(), "a"), 8);
}

#[test]
fn a_table_that_is_dropped_and_made_again_grants_no_fence_again() {
    let place = place();
    let db = with_a_backup(&place);
    sqlite3(&place.path, "DROP TABLE jobs");
    let error = db.enqueue("a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.message().contains("fences up to 9"), "{error}");
    db.init_db().unwrap();
    db.enqueue("a").unwrap().unwrap();
    assert_eq!(claim(&db, "a"), 10);
}

#[test]
fn a_file_that_is_emptied_says_so_and_grants_no_fence_again() {
    let place = place();
    let db = with_a_backup(&place);
    // Until then the log has all that is in it.
    Command::new("sqlite3").arg(&place.path).arg("PRAGMA wal_checkpoint(TRUNCATE)").output().unwrap();
    fs::File::options().write(true).open(&place.path).unwrap().set_len(0).unwrap();
    let mut seen = Vec::new();
    while let Err(error) = db.state("a") {
        assert!(error.message().contains("emptied"), "{error}");
        if seen.last() == Some(&error.kind()) {
            break;
        }
        seen.push(error.kind());
    }
    assert_eq!(seen.last(), Some(&ErrorKind::Schema));
    // The connection that writes finds it out by itself.
    let error = db.init_db().unwrap_err();
    assert!(error.message().contains("emptied"), "{error}");
    db.init_db().unwrap();
    db.enqueue("a").unwrap().unwrap();
    assert_eq!(claim(&db, "a"), 10);
}
