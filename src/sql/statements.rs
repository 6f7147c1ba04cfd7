//! The SQL of each operation on one job, to be run inside a transaction.
//!
//! The WHERE clauses carry the rules of [`crate::core::rules`]. When one changes no row, the row is read in the
//! same transaction, and the pure rule says why. They also ask for the types that correct programs store:
//! SQLite would compare a text as greater than any number, and let a broken row through. OR ABORT overrules a
//! constraint of the application's that says ON CONFLICT REPLACE: that would delete another job, and its fence.

use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::schema::Jobs;
use crate::core::error::{Answer, Error, ErrorKind, Refusal};
use crate::core::job::{Job, Lease};
use crate::core::rules::{self, NoFence, shown};

/// How many statements a connection keeps prepared: those here, those of the line, and those of its transactions.
pub(crate) const COUNT: usize = 32;

/// Tries no insert where the job exists: the triggers of [`super::schema`] would take note of it.
const ENQUEUE: &str = "INSERT OR ABORT INTO main.jobs(id, until)
    SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM main.jobs WHERE id = ?1 COLLATE BINARY) ON CONFLICT DO NOTHING";

const EXISTS: &str = "SELECT 1 FROM main.jobs WHERE id = ?1 COLLATE BINARY";

const STATE: &str =
    "SELECT id, owner, until, fence, result, done FROM main.jobs WHERE id = ?1 COLLATE BINARY";

/// What a refusal is explained by: the row without its result, which may be large, and is no reason.
const REASON: &str = "SELECT id, owner, until, fence, NULL, done FROM main.jobs WHERE id = ?1 COLLATE BINARY";

/// The highest fence that the next one must be above, for files without a floor and with one. Each statement reads the
/// floor anew: a trigger of the application may remove rows in the middle of a transaction.
macro_rules! last_fence {
    (without_floor) => {
        "fence"
    };
    (with_floor) => {
        "max(fence, (SELECT floor FROM main.fencepost_meta WHERE id = 1))"
    };
}

macro_rules! claim {
    ($row:literal) => {
        [claim!($row, without_floor), claim!($row, with_floor)]
    };
    ($row:literal, $floor:ident) => {
        concat!(
            "UPDATE OR ABORT main.jobs SET owner = ?2, until = ?4, fence = ",
            last_fence!($floor),
            " + 1 WHERE ",
            $row,
            " AND done = 0 AND until <= ?3 AND fence >= 0 AND ",
            last_fence!($floor),
            " < 9223372036854775807 AND typeof(until) = 'real' AND typeof(fence) = 'integer'"
        )
    };
}

const CLAIM: [&str; 2] = claim!("id = ?1 COLLATE BINARY");

/// A row that was found by a search: its number leads to it at once, wherever its id is among all ids.
const CLAIM_FOUND: [&str; 2] = claim!("_rowid_ = ?1");

/// What a claim has stored. Not RETURNING: SQLite makes a table of its own for that, and a statement journal, which
/// take longer than this.
const GRANTED: &str =
    "SELECT fence FROM main.jobs WHERE id = ?1 COLLATE BINARY AND owner = ?2 COLLATE BINARY AND until = ?3";

const GRANTED_FOUND: &str = "SELECT fence FROM main.jobs WHERE _rowid_ = ?4 AND +id = ?1 COLLATE BINARY
    AND owner = ?2 COLLATE BINARY AND until = ?3";

const RENEW: &str = "UPDATE OR ABORT main.jobs SET until = ?5
    WHERE id = ?1 COLLATE BINARY AND done = 0 AND owner = ?2 COLLATE BINARY AND fence = ?3 AND until > ?4
    AND typeof(until) = 'real'";

const COMPLETE: &str = "UPDATE OR ABORT main.jobs SET result = ?5, done = 1
    WHERE id = ?1 COLLATE BINARY AND done = 0 AND owner = ?2 COLLATE BINARY AND fence = ?3 AND until > ?4
    AND typeof(until) = 'real'";

const RELEASE: &str = "UPDATE OR ABORT main.jobs SET owner = NULL, until = ?4
    WHERE id = ?1 COLLATE BINARY AND done = 0 AND owner = ?2 COLLATE BINARY AND fence = ?3
    AND typeof(until) = 'real'";

/// Moves a row to the end of the line: jobs that wait are claimed in the order of their rows (see `next`), and one that
/// always fails must not be first again and again. The row's number is SQLite's own, and hidden; no program can count
/// on it, because VACUUM changes it (<https://www.sqlite.org/lang_vacuum.html>).
macro_rules! to_the_end {
    () => {
        "_rowid_ = (SELECT iif(max(_rowid_) < 9223372036854775807, max(_rowid_) + 1, jobs._rowid_) FROM main.jobs AS line)"
    };
}

const RELEASE_TO_THE_END: &str = concat!(
    "UPDATE OR ABORT main.jobs SET owner = NULL, until = ?4, ",
    to_the_end!(),
    " WHERE id = ?1 COLLATE BINARY AND done = 0 AND owner = ?2 COLLATE BINARY AND fence = ?3
    AND typeof(until) = 'real'"
);

/// By whether the rows have numbers.
const REQUEUE: [&str; 2] = [
    "UPDATE OR ABORT main.jobs SET owner = NULL, until = 0, result = NULL, done = 0
    WHERE id = ?1 COLLATE BINARY AND done = 1 AND typeof(fence) = 'integer' AND fence >= 0",
    concat!(
        "UPDATE OR ABORT main.jobs SET owner = NULL, until = 0, result = NULL, done = 0, ",
        to_the_end!(),
        " WHERE id = ?1 COLLATE BINARY AND done = 1 AND typeof(fence) = 'integer' AND fence >= 0"
    ),
];

macro_rules! force_release {
    ($floor:ident) => {
        concat!(
            "UPDATE OR ABORT main.jobs SET owner = NULL, until = 0, fence = ",
            last_fence!($floor),
            " + 1 WHERE id = ?1 COLLATE BINARY AND done = 0 AND fence >= 0 AND ",
            last_fence!($floor),
            " < 9223372036854775807 AND typeof(until) = 'real' AND typeof(fence) = 'integer'"
        )
    };
}

const FORCE_RELEASE: [&str; 2] = [force_release!(without_floor), force_release!(with_floor)];

/// What a forced release has stored.
const FREED: &str =
    "SELECT fence FROM main.jobs WHERE id = ?1 COLLATE BINARY AND owner IS NULL AND until = 0";

macro_rules! purge {
    ($row:literal, $rows:literal) => {
        concat!(
            "DELETE FROM main.jobs WHERE ",
            $row,
            " IN (SELECT ",
            $rows,
            " FROM main.jobs WHERE done = 1 AND until <= ?1 AND fence BETWEEN 0 AND 9223372036854775806
             AND typeof(until) = 'real' AND typeof(fence) = 'integer' LIMIT ?2)"
        )
    };
}

/// By whether the rows have numbers.
const PURGE: [&str; 2] = [purge!("id COLLATE BINARY", "id"), purge!("_rowid_", "_rowid_")];

const HAS: &str = "SELECT 1 FROM main.jobs WHERE id = ?1 COLLATE BINARY AND fence >= ?2";

const FLOOR: &str = "SELECT floor FROM main.fencepost_meta WHERE id = 1";

/// Also where the row has been removed.
const RAISE_FLOOR: &str = "INSERT OR REPLACE INTO main.fencepost_meta(id, floor)
    SELECT 1, max(?1, ifnull((SELECT floor FROM main.fencepost_meta WHERE id = 1), ?1))";

const END_LEASES: &str = "UPDATE OR ABORT main.jobs SET owner = NULL, until = 0
    WHERE done = 0 AND owner IS NOT NULL AND fence <= ?1 AND typeof(fence) = 'integer'";

/// Adds a job that is not to be claimed before a time; 0 for one that can be claimed at once.
pub(crate) fn enqueue(sql: &Connection, id: &str, not_before: f64) -> Answer<()> {
    if sql.prepare_cached(ENQUEUE)?.execute(params![id, not_before])? == 1 {
        return Ok(Ok(()));
    }
    if sql.prepare_cached(EXISTS)?.exists([id])? {
        Ok(Err(rules::refused(Refusal::Exists, id, None)))
    } else {
        Err(kept_from_it(id))
    }
}

pub(crate) fn state(sql: &Connection, id: &str) -> Answer<Job> {
    Ok(read(sql, STATE, id)?.ok_or_else(|| rules::refused(Refusal::NotFound, id, None)))
}

pub(crate) fn claim(jobs: &Jobs<'_>, id: &str, owner: &str, now: f64, until: f64) -> Answer<i64> {
    let claim = CLAIM[usize::from(jobs.floor)];
    let changed = jobs.prepare_cached(claim)?.execute(params![id, owner, now, until])?;
    granted_or_why(jobs, changed, id, GRANTED, params![id, owner, until], |job, floor| {
        rules::claim(job, floor, now)
    })
}

/// Claims the job in the row of that number, where a search has found it in this transaction.
pub(crate) fn claim_found(
    jobs: &Jobs<'_>,
    id: &str,
    number: i64,
    owner: &str,
    now: f64,
    until: f64,
) -> Answer<i64> {
    let claim = CLAIM_FOUND[usize::from(jobs.floor)];
    let changed = jobs.prepare_cached(claim)?.execute(params![number, owner, now, until])?;
    granted_or_why(jobs, changed, id, GRANTED_FOUND, params![id, owner, until, number], |job, floor| {
        rules::claim(job, floor, now)
    })
}

/// Ends the lease or delay of a job, whoever has it, under a fence that is nobody's.
pub(crate) fn force_release(jobs: &Jobs<'_>, id: &str) -> Answer<i64> {
    let changed = jobs.prepare_cached(FORCE_RELEASE[usize::from(jobs.floor)])?.execute([id])?;
    granted_or_why(jobs, changed, id, FREED, [id], rules::force_release)
}

/// The fence that a change has stored, by the query `stored`, or why it was not made.
fn granted_or_why(
    jobs: &Jobs<'_>,
    changed: usize,
    id: &str,
    stored: &str,
    params: impl Params,
    rule: impl FnOnce(Option<&Job>, i64) -> Result<i64, NoFence>,
) -> Answer<i64> {
    if changed == 1 {
        let fence = jobs.prepare_cached(stored)?.query_row(params, |row| row.get(0)).optional()?;
        // A trigger of the application may have made another row of it.
        let fence = fence.ok_or_else(|| kept_from_it(id))?;
        *jobs.granted.borrow_mut() = Some(Lease { id: id.to_owned(), fence });
        return Ok(Ok(fence));
    }
    let job = read(jobs, REASON, id)?;
    match rule(job.as_ref(), floor(jobs)?) {
        Err(NoFence::Refused(reason)) => Ok(Err(rules::refused(reason, id, job.as_ref()))),
        Err(NoFence::Exhausted) => Err(Error::new(
            ErrorKind::FenceExhausted,
            format!(
                "job {}: the largest fence there is, {}, was reached; enqueue the work under another id, or in \
                 another file when no id gets one",
                shown(id),
                i64::MAX
            ),
        )),
        Ok(_) => Err(kept_from_it(id)),
    }
}

/// The fence that every grant is above.
pub(crate) fn floor(jobs: &Jobs<'_>) -> Result<i64, Error> {
    if !jobs.floor {
        return Ok(0);
    }
    let floor = jobs.prepare_cached(FLOOR)?.query_row([], |row| row.get(0)).optional()?;
    floor.ok_or_else(|| {
        Error::new(ErrorKind::Schema, "the table fencepost_meta has lost its row; call raise_floor to set it")
    })
}

/// Whether the file has a grant: the job's fence, or the floor, is not below it.
pub(crate) fn has(jobs: &Jobs<'_>, grant: &Lease) -> Result<bool, Error> {
    Ok(floor(jobs)? >= grant.fence || jobs.prepare_cached(HAS)?.exists(params![grant.id, grant.fence])?)
}

/// Sees to it that every fence that is granted from now on is above `to`.
pub(crate) fn lift(jobs: &Jobs<'_>, to: i64) -> Result<(), Error> {
    jobs.prepare_cached(RAISE_FLOOR)?.execute([to])?;
    Ok(())
}

/// The same, and ends the leases under fences up to `to`.
pub(crate) fn raise_floor(jobs: &Jobs<'_>, to: i64) -> Result<(), Error> {
    lift(jobs, to)?;
    jobs.prepare_cached(END_LEASES)?.execute([to])?;
    Ok(())
}

/// Removes up to `max` complete jobs whose `until` is not after `before`. A trigger raises the floor.
pub(crate) fn purge(jobs: &Jobs<'_>, before: f64, max: usize) -> Result<u64, Error> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    Ok(jobs.prepare_cached(PURGE[usize::from(jobs.rowid)])?.execute(params![before, max])? as u64)
}

/// Puts a complete job back into the line. Its fence stays.
pub(crate) fn requeue(jobs: &Jobs<'_>, id: &str) -> Answer<()> {
    let changed = jobs.prepare_cached(REQUEUE[usize::from(jobs.rowid)])?.execute([id])?;
    changed_or_why(jobs, changed, id, rules::requeue)
}

pub(crate) fn renew(sql: &Connection, id: &str, owner: &str, fence: i64, now: f64, until: f64) -> Answer<()> {
    let changed = sql.prepare_cached(RENEW)?.execute(params![id, owner, fence, now, until])?;
    changed_or_why(sql, changed, id, |job| rules::hold(job, owner, fence, now))
}

pub(crate) fn complete(
    sql: &Connection,
    id: &str,
    owner: &str,
    fence: i64,
    now: f64,
    result: Option<&str>,
) -> Answer<()> {
    let changed = sql.prepare_cached(COMPLETE)?.execute(params![id, owner, fence, now, result])?;
    changed_or_why(sql, changed, id, |job| rules::hold(job, owner, fence, now))
}

/// Gives the job back, not to be claimed before a time; 0 for at once.
pub(crate) fn release(jobs: &Jobs<'_>, id: &str, owner: &str, fence: i64, not_before: f64) -> Answer<()> {
    let release = if jobs.rowid { RELEASE_TO_THE_END } else { RELEASE };
    let changed = jobs.prepare_cached(release)?.execute(params![id, owner, fence, not_before])?;
    changed_or_why(jobs, changed, id, |job| rules::release(job, owner, fence))
}

fn changed_or_why(
    sql: &Connection,
    changed: usize,
    id: &str,
    rule: impl FnOnce(Option<&Job>) -> Result<(), Refusal>,
) -> Answer<()> {
    if changed == 1 {
        return Ok(Ok(()));
    }
    let job = read(sql, REASON, id)?;
    match rule(job.as_ref()) {
        Err(reason) => Ok(Err(rules::refused(reason, id, job.as_ref()))),
        Ok(()) => Err(kept_from_it(id)),
    }
}

/// The rule allows what SQLite has not done.
fn kept_from_it(id: &str) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!(
            "job {}: a trigger or constraint that the application added to the table jobs keeps the change out",
            shown(id)
        ),
    )
}

fn read(sql: &Connection, query: &str, id: &str) -> Result<Option<Job>, Error> {
    let job = sql.prepare_cached(query)?.query_row([id], |row| Ok(job(row))).optional()?;
    job.transpose().map_err(|error| broken_row(&shown(id), &error))
}

/// A row that cannot be read as a job.
pub(crate) fn broken_row(id: &str, error: &Error) -> Error {
    Error::new(ErrorKind::Corrupt, format!("job {id}: {}", error.message()))
        .with_sqlite_code(error.sqlite_code())
}

/// A row as a job: id, owner, until, fence, result, done. Other programs write the table too, and SQLite lets them
/// store any type.
pub(crate) fn job(row: &Row<'_>) -> Result<Job, Error> {
    let broken = |what: &str| Error::new(ErrorKind::Corrupt, format!("{what}; repair the row"));
    let job = Job {
        id: row.get(0)?,
        owner: row.get(1)?,
        until: row.get(2)?,
        fence: row.get(3)?,
        result: row.get(4)?,
        done: match row.get(5)? {
            0i64 => false,
            1 => true,
            other => return Err(broken(&format!("its done is {other}, which is neither 0 nor 1"))),
        },
    };
    if job.fence < 0 {
        return Err(broken(&format!("its fence is {}, below 0", job.fence)));
    }
    let texts = [Some(&job.id), job.owner.as_ref(), job.result.as_ref()];
    if texts.into_iter().flatten().any(|text| text.contains('\0')) {
        return Err(broken("a text has an inner NUL, which no caller could read whole"));
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::schema;
    use proptest::prelude::*;

    /// A table with this row alone, or none.
    fn table(row: Option<&Job>) -> Connection {
        table_above(0, row)
    }

    fn table_above(floor: i64, row: Option<&Job>) -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        schema::create_missing(&sql).unwrap();
        sql.execute("UPDATE fencepost_meta SET floor = ?1", [floor]).unwrap();
        if let Some(job) = row {
            let values = params![job.id, job.owner, job.until, job.fence, job.result, job.done];
            sql.execute("INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6)", values).unwrap();
        }
        sql
    }

    fn plain<T>(answer: Answer<T>) -> Result<T, Refusal> {
        answer.unwrap().map_err(|refused| refused.reason())
    }

    fn times() -> impl Strategy<Value = f64> {
        prop_oneof![
            // Around one moment, so that most rows and requests meet at it.
            prop::sample::select(vec![10.0f64.next_down(), 10.0, 10.0f64.next_up()]),
            prop::sample::select(vec![0.0, -1.0, 5e-324, 1e300, -1e300, 20.0]),
        ]
    }

    fn fences() -> impl Strategy<Value = i64> {
        prop::sample::select(&[0, 1, 2, 3, i64::MAX - 1, i64::MAX][..])
    }

    fn owners() -> impl Strategy<Value = String> {
        prop::sample::select(&["A", "a", "B", ""][..]).prop_map(str::to_owned)
    }

    prop_compose! {
        fn rows()(
            there in prop::bool::weighted(0.9),
            owner in prop::option::of(owners()),
            until in times(),
            fence in fences(),
            result in prop::option::of(owners()),
            done in prop::bool::weighted(0.2),
        ) -> Option<Job> {
            there.then_some(Job { id: "x".to_owned(), owner, until, fence, result, done })
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        /// What each rule says is what its SQL does, and a refusal leaves the row as it was.
        #[test]
        fn the_sql_and_the_rules_agree(
            row in rows(),
            owner in owners(),
            fence in prop_oneof![4 => fences(), 1 => prop::sample::select(vec![-1, i64::MIN])],
            now in times(),
            not_before in times(),
            result in prop::option::of(owners()),
            floor in fences(),
        ) {
            let before = row.as_ref();
            let until = now + 7.0;
            let read_back = |sql: &Connection| read(sql, STATE, "x").unwrap();

            let sql = table_above(floor, before);
            let expected = match rules::claim(before, floor, now) {
                Ok(fence) => {
                    prop_assert_eq!(plain(claim(&Jobs::of(&sql), "x", &owner, now, until)), Ok(fence));
                    before.map(|job| Job { owner: Some(owner.clone()), until, fence, ..job.clone() })
                }
                Err(NoFence::Refused(refusal)) => {
                    prop_assert_eq!(plain(claim(&Jobs::of(&sql), "x", &owner, now, until)), Err(refusal));
                    row.clone()
                }
                Err(NoFence::Exhausted) => {
                    let error = claim(&Jobs::of(&sql), "x", &owner, now, until).unwrap_err();
                    prop_assert_eq!(error.kind(), ErrorKind::FenceExhausted);
                    row.clone()
                }
            };
            prop_assert_eq!(read_back(&sql), expected);

            let may_hold = rules::hold(before, &owner, fence, now);

            let sql = table(before);
            prop_assert_eq!(plain(renew(&sql, "x", &owner, fence, now, until)), may_hold);
            let renewed = before.map(|job| Job { until, ..job.clone() });
            prop_assert_eq!(read_back(&sql), if may_hold.is_ok() { renewed } else { row.clone() });

            let sql = table(before);
            prop_assert_eq!(plain(complete(&sql, "x", &owner, fence, now, result.as_deref())), may_hold);
            let completed = before.map(|job| Job { result, done: true, ..job.clone() });
            prop_assert_eq!(read_back(&sql), if may_hold.is_ok() { completed } else { row.clone() });

            let may_release = rules::release(before, &owner, fence);
            let sql = table(before);
            prop_assert_eq!(plain(release(&Jobs::of(&sql), "x", &owner, fence, not_before)), may_release);
            let released = before.map(|job| Job { owner: None, until: not_before, ..job.clone() });
            prop_assert_eq!(read_back(&sql), if may_release.is_ok() { released } else { row.clone() });

            let sql = table_above(floor, before);
            let expected = match rules::force_release(before, floor) {
                Ok(fence) => {
                    prop_assert_eq!(plain(force_release(&Jobs::of(&sql), "x")), Ok(fence));
                    before.map(|job| Job { owner: None, until: 0.0, fence, ..job.clone() })
                }
                Err(NoFence::Refused(refusal)) => {
                    prop_assert_eq!(plain(force_release(&Jobs::of(&sql), "x")), Err(refusal));
                    row.clone()
                }
                Err(NoFence::Exhausted) => {
                    let error = force_release(&Jobs::of(&sql), "x").unwrap_err();
                    prop_assert_eq!(error.kind(), ErrorKind::FenceExhausted);
                    row.clone()
                }
            };
            prop_assert_eq!(read_back(&sql), expected);

            let may_requeue = rules::requeue(before);
            let sql = table(before);
            prop_assert_eq!(plain(requeue(&Jobs::of(&sql), "x")), may_requeue);
            let requeued =
                before.map(|job| Job { owner: None, until: 0.0, result: None, done: false, ..job.clone() });
            prop_assert_eq!(read_back(&sql), if may_requeue.is_ok() { requeued } else { row.clone() });

            let sql = table_above(floor, before);
            let goes = before.is_some_and(|job| job.done && job.until <= now && job.fence < i64::MAX);
            prop_assert_eq!(purge(&Jobs::of(&sql), now, 5).unwrap(), u64::from(goes));
            prop_assert_eq!(read_back(&sql), if goes { None } else { row.clone() });
            let last = before.filter(|_| goes).map_or(floor, |job| job.fence.max(floor));
            prop_assert_eq!(super::floor(&Jobs::of(&sql)).unwrap(), last);

            let sql = table_above(floor, before);
            raise_floor(&Jobs::of(&sql), fence).unwrap();
            prop_assert_eq!(super::floor(&Jobs::of(&sql)).unwrap(), floor.max(fence));
            let ends = before.is_some_and(|job| !job.done && job.owner.is_some() && job.fence <= fence);
            let ended = before.map(|job| Job { owner: None, until: 0.0, ..job.clone() });
            prop_assert_eq!(read_back(&sql), if ends { ended } else { row.clone() });
        }
    }

    /// SQLite lets other programs store any type. Such a row is never granted, changed or read as if it were
    /// right.
    #[test]
    fn a_row_of_wrong_types_is_corrupt() {
        for broken in [
            "until = 'late'",
            "until = x'00'",
            "fence = 1.5",
            "fence = 'one'",
            "fence = -1",
            "done = 2",
            "done = 'no'",
            "owner = x'41'",
            "owner = CAST(x'ff' AS TEXT)",
            "owner = 'A' || char(0)",
        ] {
            let row = Job {
                id: "x".into(),
                owner: Some("B".into()),
                until: 10.0,
                fence: 1,
                result: None,
                done: false,
            };
            let sql = table(Some(&row));
            sql.execute_batch(&format!("UPDATE jobs SET {broken}")).unwrap();
            let whole = |sql: &Connection| -> String {
                sql.query_row("SELECT hex(quote(owner) || quote(until) || quote(fence) || quote(result) || quote(done)) FROM jobs", [], |row| row.get(0)).unwrap()
            };
            let before = whole(&sql);
            let answers = [
                state(&sql, "x").map(|_| ()),
                claim(&Jobs::of(&sql), "x", "A", 5.0, 15.0).map(|_| ()),
                renew(&sql, "x", "B", 1, 5.0, 15.0).map(|_| ()),
                complete(&sql, "x", "B", 1, 5.0, None).map(|_| ()),
                release(&Jobs::of(&sql), "x", "B", 1, 0.0).map(|_| ()),
            ];
            for answer in answers {
                assert_eq!(answer.expect_err(broken).kind(), ErrorKind::Corrupt, "{broken}");
            }
            assert_eq!(whole(&sql), before, "{broken}");
        }
    }

    /// A result is not looked at before it is replaced, only when it is read.
    #[test]
    fn a_result_of_a_wrong_type_is_corrupt_when_it_is_read() {
        let sql = table(None);
        sql.execute_batch("INSERT INTO jobs VALUES ('x', 'B', 10, 1, x'41', 0)").unwrap();
        assert_eq!(state(&sql, "x").unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(plain(claim(&Jobs::of(&sql), "x", "A", 5.0, 15.0)), Err(Refusal::Held));
        assert_eq!(plain(complete(&sql, "x", "B", 1, 5.0, Some("right"))), Ok(()));
        assert_eq!(state(&sql, "x").unwrap().unwrap().result.as_deref(), Some("right"));
    }

    #[test]
    fn a_trigger_that_swallows_a_change_is_an_error_and_no_success() {
        let row = Job { id: "x".into(), owner: None, until: 0.0, fence: 1, result: None, done: false };
        let sql = table(Some(&row));
        sql.execute_batch(
            "CREATE TRIGGER t BEFORE UPDATE ON jobs BEGIN SELECT RAISE(IGNORE); END;
             CREATE TRIGGER u BEFORE INSERT ON jobs BEGIN SELECT RAISE(IGNORE); END",
        )
        .unwrap();
        assert_eq!(claim(&Jobs::of(&sql), "x", "A", 5.0, 15.0).unwrap_err().kind(), ErrorKind::Schema);
        assert_eq!(
            claim_found(&Jobs::of(&sql), "x", 1, "A", 5.0, 15.0).unwrap_err().kind(),
            ErrorKind::Schema
        );
        assert_eq!(enqueue(&sql, "y", 0.0).unwrap_err().kind(), ErrorKind::Schema);
        assert_eq!(plain(enqueue(&sql, "x", 0.0)), Err(Refusal::Exists));
    }

    /// The column's own way to compare would take X for x.
    #[test]
    fn a_trigger_that_makes_another_row_of_a_claim_is_an_error_and_no_success() {
        for change in ["id = 'X'", "owner = 'B'", "until = 99"] {
            for found in [false, true] {
                let sql = Connection::open_in_memory().unwrap();
                sql.execute_batch(&format!(
                    "CREATE TABLE jobs(id TEXT COLLATE NOCASE, owner TEXT, until REAL NOT NULL DEFAULT 0,
                        fence INTEGER NOT NULL DEFAULT 0, result TEXT, done INTEGER NOT NULL DEFAULT 0,
                        PRIMARY KEY(id COLLATE BINARY));
                     CREATE TRIGGER t AFTER UPDATE ON jobs BEGIN UPDATE jobs SET {change} WHERE _rowid_ = new._rowid_; END"
                ))
                .unwrap();
                assert_eq!(plain(enqueue(&sql, "x", 0.0)), Ok(()));
                let answer = if found {
                    claim_found(&Jobs::of(&sql), "x", 1, "A", 5.0, 15.0)
                } else {
                    claim(&Jobs::of(&sql), "x", "A", 5.0, 15.0)
                };
                assert_eq!(answer.unwrap_err().kind(), ErrorKind::Schema, "{change}");
            }
        }
    }

    #[test]
    fn what_was_found_is_claimed_without_a_search_for_its_id() {
        let sql = table(None);
        for query in [CLAIM_FOUND[0], GRANTED_FOUND] {
            let mut plan = sql.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let steps: Vec<String> =
                plan.query_map([1; 4], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
            assert_eq!(steps.len(), 1, "{query}: {steps:?}");
            assert!(steps[0].ends_with("USING INTEGER PRIMARY KEY (rowid=?)"), "{query}: {steps:?}");
        }
    }

    /// The index of the key and the column may compare in two ways.
    #[test]
    fn ids_are_told_apart_byte_by_byte_whatever_the_column_says() {
        let sql = Connection::open_in_memory().unwrap();
        sql.execute_batch(
            "CREATE TABLE jobs(id TEXT COLLATE NOCASE, owner TEXT, until REAL NOT NULL DEFAULT 0,
                fence INTEGER NOT NULL DEFAULT 0, result TEXT, done INTEGER NOT NULL DEFAULT 0,
                PRIMARY KEY(id COLLATE BINARY))",
        )
        .unwrap();
        assert_eq!(plain(enqueue(&sql, "x", 0.0)), Ok(()));
        assert_eq!(plain(enqueue(&sql, "X", 0.0)), Ok(()));
        assert_eq!(plain(claim(&Jobs::of(&sql), "x", "A", 1.0, 2.0)), Ok(1));
        assert_eq!(state(&sql, "X").unwrap().unwrap().fence, 0);
    }

    /// Such a constraint would delete the other job to make room for this one.
    #[test]
    fn no_constraint_of_the_application_deletes_another_job() {
        let sql = Connection::open_in_memory().unwrap();
        sql.execute_batch(
            "CREATE TABLE jobs(id TEXT PRIMARY KEY ON CONFLICT REPLACE, owner TEXT UNIQUE ON CONFLICT REPLACE,
                until REAL NOT NULL DEFAULT 0 UNIQUE ON CONFLICT REPLACE, fence INTEGER NOT NULL DEFAULT 0,
                result TEXT UNIQUE ON CONFLICT REPLACE, done INTEGER NOT NULL DEFAULT 0)",
        )
        .unwrap();
        let refused = |answer: Answer<()>| assert_eq!(answer.unwrap_err().kind(), ErrorKind::Schema);
        enqueue(&sql, "a", 0.0).unwrap().unwrap();
        assert_eq!(plain(enqueue(&sql, "a", 0.0)), Err(Refusal::Exists));
        refused(enqueue(&sql, "b", 0.0));
        claim(&Jobs::of(&sql), "a", "w", 1.0, 5.0).unwrap().unwrap();
        enqueue(&sql, "b", 0.0).unwrap().unwrap();
        refused(claim(&Jobs::of(&sql), "b", "w", 1.0, 6.0).map(|_| Ok(())));
        claim(&Jobs::of(&sql), "b", "v", 1.0, 6.0).unwrap().unwrap();
        refused(renew(&sql, "b", "v", 1, 1.0, 5.0));
        complete(&sql, "a", "w", 1, 1.0, Some("r")).unwrap().unwrap();
        refused(complete(&sql, "b", "v", 1, 1.0, Some("r")));
        sql.execute_batch("INSERT INTO jobs(id) VALUES ('c')").unwrap();
        refused(release(&Jobs::of(&sql), "b", "v", 1, 0.0));
        for (id, fence) in [("a", 1), ("b", 1), ("c", 0)] {
            assert_eq!(state(&sql, id).unwrap().unwrap().fence, fence);
        }
    }
}
