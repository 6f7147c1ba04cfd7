//! The SQL of each operation, to be run inside a transaction.
//!
//! The WHERE clauses carry the rules of [`crate::rules`]. When one changes no row, the row is read in the
//! same transaction, and the pure rule says why. They also ask for the types that correct programs store:
//! SQLite would compare a text as greater than any number, and let a broken row through.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::{Answer, Error, ErrorKind, Refusal};
use crate::rules::{self, Job, NoClaim};

/// How many statements a connection keeps prepared: those here, and those of its transactions.
pub(super) const COUNT: usize = 16;

const ENQUEUE: &str = "INSERT INTO main.jobs(id) VALUES (?1) ON CONFLICT (id) DO NOTHING";

const STATE: &str = "SELECT id, owner, until, fence, result, done FROM main.jobs WHERE id = ?1";

const CLAIM: &str = "UPDATE main.jobs SET owner = ?2, until = ?4, fence = fence + 1
    WHERE id = ?1 AND done = 0 AND until <= ?3 AND fence BETWEEN 0 AND 9223372036854775806
    AND typeof(until) = 'real' AND typeof(fence) = 'integer'
    RETURNING fence";

const RENEW: &str = "UPDATE main.jobs SET until = ?5
    WHERE id = ?1 AND done = 0 AND owner = ?2 COLLATE BINARY AND fence = ?3 AND until > ?4
    AND typeof(until) = 'real'";

const COMPLETE: &str = "UPDATE main.jobs SET result = ?5, done = 1
    WHERE id = ?1 AND done = 0 AND owner = ?2 COLLATE BINARY AND fence = ?3 AND until > ?4
    AND typeof(until) = 'real'";

const RELEASE: &str = "UPDATE main.jobs SET owner = NULL, until = 0
    WHERE id = ?1 AND done = 0 AND owner = ?2 COLLATE BINARY AND fence = ?3";

pub(crate) fn enqueue(sql: &Connection, id: &str) -> Answer<()> {
    let added = sql.prepare_cached(ENQUEUE)?.execute([id])?;
    Ok(if added == 1 { Ok(()) } else { Err(Refusal::Exists) })
}

pub(crate) fn state(sql: &Connection, id: &str) -> Answer<Job> {
    Ok(read(sql, id)?.ok_or(Refusal::NotFound))
}

pub(crate) fn claim(sql: &Connection, id: &str, owner: &str, now: f64, until: f64) -> Answer<i64> {
    let mut statement = sql.prepare_cached(CLAIM)?;
    let mut rows = statement.query(params![id, owner, now, until])?;
    if let Some(row) = rows.next()? {
        let fence = row.get(0)?;
        // To the end: the statement is not over before.
        while rows.next()?.is_some() {}
        return Ok(Ok(fence));
    }
    match rules::claim(read(sql, id)?.as_ref(), now) {
        Err(NoClaim::Refused(refusal)) => Ok(Err(refusal)),
        Err(NoClaim::FenceExhausted) => Err(Error::new(
            ErrorKind::FenceExhausted,
            format!(
                "job {}: its fence is {}, the largest there is; enqueue the work under another id",
                shown(id),
                i64::MAX
            ),
        )),
        Ok(_) => Err(kept_from_it(id)),
    }
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

pub(crate) fn release(sql: &Connection, id: &str, owner: &str, fence: i64) -> Answer<()> {
    let changed = sql.prepare_cached(RELEASE)?.execute(params![id, owner, fence])?;
    changed_or_why(sql, changed, id, |job| rules::release(job, owner, fence))
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
    match rule(read(sql, id)?.as_ref()) {
        Err(refusal) => Ok(Err(refusal)),
        Ok(()) => Err(kept_from_it(id)),
    }
}

/// The rule allows what SQLite has not done.
fn kept_from_it(id: &str) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!(
            "job {}: a trigger that the application added to the table jobs keeps the change out",
            shown(id)
        ),
    )
}

fn read(sql: &Connection, id: &str) -> Result<Option<Job>, Error> {
    let job = sql.prepare_cached(STATE)?.query_row([id], |row| Ok(job(row))).optional()?;
    job.transpose().map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("job {}: {}", shown(id), error.message()))
            .with_sqlite_code(error.sqlite_code())
    })
}

/// A row as a job. Other programs write the table too, and SQLite lets them store any type.
fn job(row: &Row<'_>) -> Result<Job, Error> {
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

/// An id for a message: quoted, and not too long.
fn shown(id: &str) -> String {
    let cut = id.floor_char_boundary(80);
    format!("{:?}{}", &id[..cut], if cut < id.len() { "..." } else { "" })
}
