//! The table `jobs`: made where it is missing, and its shape checked where it is not.

use std::cell::RefCell;
use std::ops::Deref;

use rusqlite::{Connection, OptionalExtension};

use crate::core::error::{Error, ErrorKind};
use crate::core::job::Lease;

const CREATE: &str = "CREATE TABLE jobs(
    id TEXT PRIMARY KEY,
    owner TEXT,
    until REAL NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    result TEXT,
    done INTEGER NOT NULL DEFAULT 0)";

/// Name, type, whether NOT NULL DEFAULT 0.
const COLUMNS: [(&str, &str, bool); 6] = [
    ("id", "TEXT", false),
    ("owner", "TEXT", false),
    ("until", "REAL", true),
    ("fence", "INTEGER", true),
    ("result", "TEXT", false),
    ("done", "INTEGER", true),
];

/// What `claim_next` finds a job by without reading those that are not claimable, however many there are.
const INDEX: &str = "ON jobs(until) WHERE done = 0";

/// The floor: every fence that is granted is above it. It rises when a row goes, so that fences outlive rows. One row.
const META: &str = "CREATE TABLE main.fencepost_meta(
    id INTEGER PRIMARY KEY CHECK (id = 1), floor INTEGER NOT NULL, replaced_id, replaced_fence INTEGER);
    INSERT INTO main.fencepost_meta(id, floor) VALUES (1, 0)";

/// What raises the floor, whichever program takes a row or its id away. In words that old versions of SQLite know:
/// another program's copy must be able to read the schema.
///
/// REPLACE fires no DELETE trigger unless recursive_triggers is on (<https://www.sqlite.org/lang_conflict.html>), and a
/// BEFORE INSERT trigger fires too when the row is then ignored or updated instead. So that one only notes what might be
/// replaced, and the AFTER INSERT trigger says that it was.
const TRIGGERS: [(&str, &str); 4] = [
    (
        "fencepost_deleted",
        "AFTER DELETE ON jobs WHEN typeof(old.fence) = 'integer' AND old.fence > 0
         BEGIN UPDATE fencepost_meta SET floor = old.fence WHERE floor < old.fence; END",
    ),
    (
        "fencepost_renamed",
        "AFTER UPDATE OF id ON jobs WHEN typeof(old.fence) = 'integer' AND old.fence > 0
         BEGIN UPDATE fencepost_meta SET floor = old.fence WHERE floor < old.fence; END",
    ),
    (
        "fencepost_replacing",
        "BEFORE INSERT ON jobs
         WHEN EXISTS (SELECT 1 FROM jobs WHERE id = new.id AND fence > 0 AND typeof(fence) = 'integer')
         BEGIN UPDATE fencepost_meta SET replaced_id = new.id,
            replaced_fence = (SELECT fence FROM jobs WHERE id = new.id); END",
    ),
    (
        "fencepost_replaced",
        "AFTER INSERT ON jobs WHEN new.id = (SELECT replaced_id FROM fencepost_meta WHERE id = 1)
         BEGIN UPDATE fencepost_meta SET floor = max(floor, replaced_fence), replaced_id = NULL; END",
    ),
];

/// Whether there is a table `jobs` of our shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    Ours {
        /// Whether its rows have SQLite's hidden number (<https://www.sqlite.org/rowidtable.html>).
        rowid: bool,
        /// Whether there is a floor.
        floor: bool,
    },
}

/// The table `jobs` of a connection, known to be ours.
pub(crate) struct Jobs<'a> {
    pub(crate) sql: &'a Connection,
    pub(crate) rowid: bool,
    pub(crate) floor: bool,
    /// The last fence that was granted or raised through this.
    pub(crate) granted: RefCell<Option<Lease>>,
}

impl<'a> Jobs<'a> {
    pub(crate) fn new(sql: &'a Connection, rowid: bool, floor: bool) -> Jobs<'a> {
        Jobs { sql, rowid, floor, granted: RefCell::new(None) }
    }
}

#[cfg(test)]
impl Jobs<'_> {
    /// The table of a connection for a test.
    pub(crate) fn of(sql: &Connection) -> Jobs<'_> {
        match look(sql).unwrap() {
            Found::Ours { rowid, floor } => Jobs::new(sql, rowid, floor),
            Found::Missing => panic!("there is no table jobs"),
        }
    }
}

impl Deref for Jobs<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.sql
    }
}

/// Changes whenever any program changes the file's schema.
pub(crate) fn version(connection: &Connection) -> Result<i64, Error> {
    Ok(connection.prepare_cached("PRAGMA main.schema_version")?.query_row([], |row| row.get(0))?)
}

/// Looks for the table; one of another shape is an error.
pub(crate) fn look(connection: &Connection) -> Result<Found, Error> {
    let kind: Option<String> = connection
        .prepare_cached("SELECT type FROM main.sqlite_schema WHERE name = 'jobs' COLLATE NOCASE AND type IN ('table', 'view')")?
        .query_row([], |row| row.get(0))
        .optional()?;
    match kind.as_deref() {
        None => return Ok(Found::Missing),
        Some("table") => {}
        Some(_) => return Err(other_shape("it is a view")),
    }
    let mut ours = 0;
    let mut rowid = has_rowid(connection)?;
    let mut columns = connection.prepare_cached(
        "SELECT name, upper(type), \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo('jobs', 'main')",
    )?;
    let mut rows = columns.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let kind: String = row.get(1)?;
        let not_null: bool = row.get(2)?;
        let default: Option<String> = row.get(3)?;
        let key_place: i64 = row.get(4)?;
        let hidden: i64 = row.get(5)?;

        let lower = name.to_ascii_lowercase();
        match COLUMNS.iter().find(|(known, ..)| *known == lower) {
            Some(&(known, known_kind, zero)) => {
                ours += 1;
                if kind != known_kind {
                    return Err(other_shape(&format!("column {name} has type {kind:?}, not {known_kind}")));
                }
                if key_place != i64::from(known == "id") {
                    return Err(other_shape("its primary key is not id alone"));
                }
                if hidden != 0 {
                    return Err(other_shape(&format!("column {name} is generated or hidden")));
                }
                // NOT NULL on id asks for what is so anyway; on the others it would refuse NULL.
                if not_null != zero && known != "id" {
                    return Err(other_shape(&format!(
                        "column {name} must {}be NOT NULL",
                        if zero { "" } else { "not " }
                    )));
                }
                let default_is_right = if zero {
                    default.as_deref().is_some_and(is_zero)
                } else {
                    default.is_none_or(|d| d.eq_ignore_ascii_case("null"))
                };
                if !default_is_right {
                    return Err(other_shape(&format!("column {name} has another default")));
                }
            }
            None if not_null && default.is_none() && hidden == 0 => {
                return Err(other_shape(&format!(
                    "column {name} is NOT NULL without a default, so no job can be added"
                )));
            }
            // The name means the column then.
            None if lower == ROWID => rowid = false,
            None => {}
        }
    }
    if ours != COLUMNS.len() {
        return Err(other_shape("it lacks a column of id, owner, until, fence, result, done"));
    }
    if key_collation(connection)?.is_none_or(|collation| !collation.eq_ignore_ascii_case("BINARY")) {
        return Err(other_shape("its key does not compare ids byte by byte"));
    }
    Ok(Found::Ours { rowid, floor: has(connection, "table", &["fencepost_meta"])? })
}

/// Whether all is there that `create_missing` makes. A table of another shape is an error.
pub(crate) fn is_complete(connection: &Connection) -> Result<bool, Error> {
    let Found::Ours { floor, .. } = look(connection)? else { return Ok(false) };
    Ok(floor
        && has(connection, "index", &["fencepost_claimable"])?
        && has(connection, "trigger", &TRIGGERS.map(|(name, _)| name))?)
}

/// Whether there are things of these names. A trigger follows its table when that is renamed.
fn has(connection: &Connection, kind: &str, names: &[&str]) -> Result<bool, Error> {
    let mut look = connection.prepare_cached(
        "SELECT 1 FROM main.sqlite_schema WHERE type = ?1 AND name = ?2 COLLATE NOCASE
         AND (type = 'table' OR tbl_name = 'jobs' COLLATE NOCASE)",
    )?;
    for name in names {
        if !look.exists([kind, name])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// SQLite's name for the hidden number of a row.
const ROWID: &str = "_rowid_";

fn has_rowid(connection: &Connection) -> Result<bool, Error> {
    Ok(connection
        .prepare_cached(
            "SELECT NOT wr FROM pragma_table_list WHERE schema = 'main' AND name = 'jobs' COLLATE NOCASE",
        )?
        .query_row([], |row| row.get(0))?)
}

/// How the primary key tells ids apart.
fn key_collation(connection: &Connection) -> Result<Option<String>, Error> {
    Ok(connection
        .prepare_cached(
            "SELECT x.coll FROM pragma_index_list('jobs', 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x
             WHERE l.origin = 'pk' AND x.name = 'id' COLLATE NOCASE AND x.key",
        )?
        .query_row([], |row| row.get(0))
        .optional()?)
}

fn is_zero(default: &str) -> bool {
    default.trim_matches(['(', ')', ' ', '\'']).parse::<f64>() == Ok(0.0)
}

/// Makes the table, and what belongs to it, where it is missing. On a table that another program has filled the index
/// takes its time.
pub(crate) fn create_missing(connection: &Connection) -> Result<(), Error> {
    if look(connection)? == Found::Missing {
        connection.execute_batch(CREATE)?;
    }
    create_unless_there(connection, "index", "fencepost_claimable", INDEX)?;
    create_floor(connection)
}

/// Makes the floor and what raises it, where it is missing.
pub(crate) fn create_floor(connection: &Connection) -> Result<(), Error> {
    if !has(connection, "table", &["fencepost_meta"])? {
        connection.execute_batch(META)?;
    }
    TRIGGERS.iter().try_for_each(|(name, what)| create_unless_there(connection, "trigger", name, what))
}

/// One of the name may belong to a table that was renamed.
fn create_unless_there(connection: &Connection, kind: &str, name: &str, what: &str) -> Result<(), Error> {
    if has(connection, kind, &[name])? {
        return Ok(());
    }
    Ok(connection
        .execute_batch(&format!("DROP {kind} IF EXISTS main.{name}; CREATE {kind} main.{name} {what}"))?)
}

pub(crate) fn missing() -> Error {
    Error::new(ErrorKind::Schema, "there is no table jobs; call init_db first")
}

/// The same in a file that once had one.
pub(crate) fn lost(highest_fence: i64) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!(
            "there is no table jobs any more, though fences up to {highest_fence} were granted: the file was emptied, or \
             another one put in its place; restore it, or call init_db to begin anew above that fence"
        ),
    )
}

fn other_shape(why: &str) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!("the table jobs has another shape than fencepost's: {why}; use another file"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sql: &str) -> Result<Found, Error> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        look(&connection)
    }

    #[test]
    fn what_is_missing_is_made_once() {
        let made = |connection: &Connection| -> i64 {
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap()
        };
        let all = Connection::open_in_memory().unwrap();
        create_missing(&all).unwrap();
        for lost in
            ["TABLE jobs", "INDEX fencepost_claimable", "TABLE fencepost_meta", "TRIGGER fencepost_deleted"]
        {
            let connection = Connection::open_in_memory().unwrap();
            for _ in 0..2 {
                create_missing(&connection).unwrap();
                assert!(is_complete(&connection).unwrap(), "{lost}");
                assert_eq!(made(&connection), made(&all), "{lost}");
            }
            connection.execute_batch(&format!("DROP {lost}")).unwrap();
            assert!(!is_complete(&connection).unwrap(), "{lost}");
            create_missing(&connection).unwrap();
            assert!(is_complete(&connection).unwrap(), "{lost}");
            assert_eq!(made(&connection), made(&all), "{lost}");
        }
    }

    #[test]
    fn what_create_makes_is_ours() {
        assert_eq!(shape("").unwrap(), Found::Missing);
        assert_eq!(shape(CREATE).unwrap(), Found::Ours { rowid: true, floor: false });
    }

    #[test]
    fn spelling_order_and_added_columns_do_not_matter() {
        for sql in [
            "CREATE TABLE Jobs(id text NOT NULL PRIMARY KEY, Owner text, until real NOT NULL DEFAULT 0.0, fence integer NOT NULL DEFAULT (0), result text DEFAULT NULL, done integer NOT NULL DEFAULT 0)",
            "CREATE TABLE jobs(done INTEGER NOT NULL DEFAULT 0, owner TEXT, id TEXT, until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0, result TEXT, PRIMARY KEY(id)) WITHOUT ROWID",
            "CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0, result TEXT, done INTEGER NOT NULL DEFAULT 0, note TEXT, tries INTEGER NOT NULL DEFAULT 3, twice INTEGER AS (tries * 2)) STRICT",
        ] {
            assert!(matches!(shape(sql).unwrap(), Found::Ours { .. }), "{sql}");
        }
    }

    #[test]
    fn a_table_may_lack_row_numbers_or_hide_them() {
        let without = CREATE.replace("DEFAULT 0)", "DEFAULT 0) WITHOUT ROWID");
        assert_eq!(shape(&without).unwrap(), Found::Ours { rowid: false, floor: false });
        let hidden = CREATE.replace("result TEXT,", "result TEXT, _ROWID_ TEXT,");
        assert_eq!(shape(&hidden).unwrap(), Found::Ours { rowid: false, floor: false });
    }

    #[test]
    fn another_shape_is_refused() {
        for sql in [
            "CREATE TABLE jobs(x)",
            "CREATE VIEW jobs AS SELECT 1 AS id",
            &CREATE.replace("until REAL", "until TEXT"),
            &CREATE.replace("id TEXT PRIMARY KEY", "id INTEGER PRIMARY KEY"),
            &CREATE.replace("id TEXT PRIMARY KEY", "id TEXT PRIMARY KEY COLLATE NOCASE"),
            &CREATE.replace("id TEXT PRIMARY KEY", "id TEXT UNIQUE"),
            &CREATE.replace("owner TEXT,", "owner TEXT NOT NULL,"),
            &CREATE.replace("owner TEXT,", "owner TEXT DEFAULT 'me',"),
            &CREATE.replace("fence INTEGER NOT NULL DEFAULT 0", "fence INTEGER NOT NULL DEFAULT 1"),
            &CREATE.replace("fence INTEGER NOT NULL DEFAULT 0", "fence INTEGER DEFAULT 0"),
            &CREATE.replace("result TEXT,", ""),
            &CREATE.replace("result TEXT,", "result TEXT, added TEXT NOT NULL,"),
            &CREATE
                .replace("id TEXT PRIMARY KEY", "id TEXT")
                .replace("DEFAULT 0)", "DEFAULT 0, PRIMARY KEY(id, owner))"),
            &CREATE.replace("result TEXT,", "result TEXT AS (owner),"),
        ] {
            assert_eq!(shape(sql).expect_err(sql).kind(), ErrorKind::Schema, "{sql}");
        }
    }

    fn floor_after(sql: &str) -> i64 {
        let connection = Connection::open_in_memory().unwrap();
        create_missing(&connection).unwrap();
        assert!(is_complete(&connection).unwrap());
        connection
            .execute_batch("INSERT INTO jobs(id, fence) VALUES ('a', 5), ('b', 3), ('c', 0), ('odd', 'text')")
            .unwrap();
        connection.execute_batch(sql).unwrap();
        connection.query_row("SELECT floor FROM fencepost_meta", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_floor_rises_when_a_row_or_its_id_goes_whoever_takes_it_away() {
        for (sql, floor) in [
            ("DELETE FROM jobs WHERE id = 'b'", 3),
            ("DELETE FROM jobs", 5),
            ("DELETE FROM jobs WHERE id = 'a'; DELETE FROM jobs WHERE id = 'b'", 5),
            ("PRAGMA recursive_triggers = ON; DELETE FROM jobs", 5),
            ("UPDATE jobs SET id = 'z' WHERE id = 'b'", 3),
            ("INSERT OR REPLACE INTO jobs(id) VALUES ('a')", 5),
            ("PRAGMA recursive_triggers = ON; REPLACE INTO jobs(id) VALUES ('a')", 5),
        ] {
            assert_eq!(floor_after(sql), floor, "{sql}");
        }
    }

    #[test]
    fn the_floor_stays_where_no_fence_goes() {
        for sql in [
            "DELETE FROM jobs WHERE id IN ('c', 'odd')",
            "INSERT INTO jobs(id) VALUES ('d')",
            "INSERT OR IGNORE INTO jobs(id) VALUES ('a')",
            "INSERT INTO jobs(id) VALUES ('a') ON CONFLICT(id) DO UPDATE SET owner = 'x'",
            "INSERT OR IGNORE INTO jobs(id) VALUES ('a'); INSERT INTO jobs(id) VALUES ('d')",
            "REPLACE INTO jobs(id) VALUES ('c')",
            "UPDATE jobs SET fence = fence + 1, owner = 'x', until = 9, done = 1 WHERE id <> 'odd'",
        ] {
            assert_eq!(floor_after(sql), 0, "{sql}");
        }
    }

    /// Its triggers and its index go with a table that is renamed.
    #[test]
    fn a_table_in_the_place_of_one_that_was_renamed_gets_all_that_belongs_to_it() {
        let connection = Connection::open_in_memory().unwrap();
        create_missing(&connection).unwrap();
        connection.execute_batch(&format!("ALTER TABLE jobs RENAME TO old; {CREATE}")).unwrap();
        assert!(!is_complete(&connection).unwrap());
        create_missing(&connection).unwrap();
        assert!(is_complete(&connection).unwrap());
        connection.execute_batch("INSERT INTO jobs(id, fence) VALUES ('a', 7); DELETE FROM jobs").unwrap();
        let floor: i64 =
            connection.query_row("SELECT floor FROM fencepost_meta", [], |row| row.get(0)).unwrap();
        assert_eq!(floor, 7);
    }
}
