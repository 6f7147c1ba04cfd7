//! Which job comes next: leases that ran out and delays that are over, those first that are over the longest; then
//! the jobs that were never delayed, in the order of their rows (see [`crate::core::rules::place`]).
//!
//! The index of [`super::schema`] holds the jobs that are not complete by their `until`, so either search begins
//! at its first answer, however many rows there are and however many leases are running.

use rusqlite::{OptionalExtension, params};

use super::schema::Jobs;
use super::sound::sound;
use super::statements;
use crate::core::error::{Answer, Error, ErrorKind, Refusal, Refused};
use crate::core::job::Lease;
use crate::core::rules::{self, shown};

/// What both searches ask for: what `listing` calls claimable. A row that no claim can be granted on is passed over, or
/// it would keep all others waiting.
macro_rules! line {
    ($when:literal, $rows:literal) => {
        concat!(
            "SELECT id, ",
            $rows,
            " FROM main.jobs WHERE done = 0 AND ",
            $when,
            " AND fence < 9223372036854775807 AND ",
            sound!(),
            " ORDER BY until, ",
            $rows,
            " LIMIT ?2"
        )
    };
}

const OVER: [&str; 2] =
    [line!("until > 0 AND until <= ?1", "id"), line!("until > 0 AND until <= ?1", "_rowid_")];
const WAITING: [&str; 2] = [line!("until <= min(0, ?1)", "id"), line!("until <= min(0, ?1)", "_rowid_")];

/// When the next one can be claimed.
const SOONEST: &str = concat!(
    "SELECT until FROM main.jobs WHERE done = 0 AND until > ?1 AND fence < 9223372036854775807 AND ",
    sound!(),
    " ORDER BY until LIMIT 1"
);

/// A job that can be claimed, and the number of its row, if the rows have numbers.
struct Place {
    id: String,
    number: Option<i64>,
}

/// Claims up to `max` jobs for `owner`.
pub(crate) fn claim(jobs: &Jobs<'_>, owner: &str, now: f64, until: f64, max: usize) -> Answer<Vec<Lease>> {
    let mut places = find(jobs, OVER, now, max)?;
    if places.len() < max {
        places.extend(find(jobs, WAITING, now, max - places.len())?);
    }
    let mut grants = Vec::with_capacity(places.len());
    for Place { id, number } in places {
        let claimed = match number {
            Some(number) => statements::claim_found(jobs, &id, number, owner, now, until)?,
            None => statements::claim(jobs, &id, owner, now, until)?,
        };
        match claimed {
            Ok(fence) => grants.push(Lease { id, fence }),
            Err(refusal) => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("job {} was found claimable and then not: {refusal}", shown(&id)),
                ));
            }
        }
    }
    Ok(if grants.is_empty() { Err(nothing(jobs, now)?) } else { Ok(grants) })
}

/// Nothing is claimable; but perhaps soon.
fn nothing(jobs: &Jobs<'_>, now: f64) -> Result<Refused, Error> {
    let soonest: Option<f64> = jobs.prepare_cached(SOONEST)?.query_row([now], |row| row.get(0)).optional()?;
    let when = match soonest {
        Some(until) => format!("the next one can be at {}", rules::time(until)),
        None => "and none waits".to_owned(),
    };
    Ok(Refused::new(Refusal::NotFound, format!("no job can be claimed now, {when}")))
}

fn find(jobs: &Jobs<'_>, search: [&str; 2], now: f64, max: usize) -> Result<Vec<Place>, Error> {
    let mut statement = jobs.prepare_cached(search[usize::from(jobs.rowid)])?;
    let places = statement.query_map(params![now, i64::try_from(max).unwrap_or(i64::MAX)], |row| {
        Ok(Place { id: row.get(0)?, number: jobs.rowid.then(|| row.get(1)).transpose()? })
    })?;
    Ok(places.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::job::Job;
    use crate::sql::{schema, sound};
    use rusqlite::Connection;

    fn table(without_rowid: bool) -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        if without_rowid {
            sql.execute_batch(
                "CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0,
                    fence INTEGER NOT NULL DEFAULT 0, result TEXT, done INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
            )
            .unwrap();
        }
        schema::create_missing(&sql).unwrap();
        sound::install(&sql).unwrap();
        sql
    }

    fn ids(answer: Answer<Vec<Lease>>) -> Vec<String> {
        answer.unwrap().unwrap_or_default().into_iter().map(|grant| grant.id).collect()
    }

    prop_compose! {
        fn rows()(
            owned in any::<bool>(),
            until in prop::sample::select(vec![-5.0, 0.0, 0.0, 1.0, 9.0, 10.0, 11.0, 99.0]),
            fence in prop::sample::select(vec![0, 1, 7, i64::MAX]),
            done in prop::bool::weighted(0.2),
        ) -> (bool, f64, i64, bool) {
            (owned, until, fence, done)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// The search gives what the pure rules call claimable, in the line's order.
        #[test]
        fn the_line_is_that_of_the_rules(
            rows in prop::collection::vec(rows(), 0..12),
            max in 1usize..14,
            now in prop::sample::select(vec![-10.0, -1.0, 0.0, 5.0, 10.0, 1e9]),
        ) {
            let sql = table(false);
            let mut line = Vec::new();
            for (number, (owned, until, fence, done)) in rows.into_iter().enumerate() {
                let owner = owned.then(|| "w".to_owned());
                // Ids in another order than the rows.
                let id = format!("{:02}-{number}", 50 - number);
                sql.execute(
                    "INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, NULL, ?5)",
                    params![id, owner, until, fence, done],
                )
                .unwrap();
                let job = Job { id, owner, until, fence, result: None, done };
                if rules::claim(Some(&job), 0, now).is_ok() {
                    line.push((rules::place(&job, number as i64), job.id));
                }
            }
            line.sort_by(|a, b| a.partial_cmp(b).unwrap());
            let expected: Vec<_> = line.into_iter().map(|(_, id)| id).take(max).collect();
            let jobs = Jobs::of(&sql);
            prop_assert_eq!(ids(claim(&jobs, "me", now, now + 5.0, max)), expected);
        }
    }

    #[test]
    fn rows_that_cannot_be_granted_keep_nobody_waiting() {
        for max in [1, 2, 5] {
            let sql = table(false);
            sql.execute_batch(
                "INSERT INTO jobs(id) VALUES (NULL), (x'41'), (CAST(x'ff' AS TEXT)), ('a' || char(0)), (CAST(x'c0' AS TEXT));
                 INSERT INTO jobs(id, fence) VALUES ('last fence', 9223372036854775807), ('below', -1), ('half', 0.5);
                 INSERT INTO jobs(id, until) VALUES ('text', 'soon'), ('blob', x'00');
                 INSERT INTO jobs(id) VALUES ('good'), ('better')",
            )
            .unwrap();
            let jobs = Jobs::of(&sql);
            let expected = &["good", "better"][..max.min(2)];
            assert_eq!(ids(claim(&jobs, "me", 1.0, 2.0, max)), expected);
        }
    }

    #[test]
    fn a_released_job_goes_to_the_end_of_the_line() {
        let sql = table(false);
        let jobs = Jobs::of(&sql);
        sql.execute_batch("INSERT INTO jobs(id) VALUES ('poison'), ('b'), ('c')").unwrap();
        let mut order = Vec::new();
        for _ in 0..6 {
            let grants = claim(&jobs, "me", 1.0, 2.0, 1).unwrap().unwrap();
            statements::release(&jobs, &grants[0].id, "me", grants[0].fence, 0.0).unwrap().unwrap();
            order.push(grants[0].id.clone());
        }
        assert_eq!(order, ["poison", "b", "c", "poison", "b", "c"]);
    }

    #[test]
    fn a_job_is_released_although_the_last_row_number_is_taken() {
        let sql = table(false);
        let jobs = Jobs::of(&sql);
        sql.execute_batch("INSERT INTO jobs(rowid, id) VALUES (1, 'a'), (9223372036854775807, 'z')").unwrap();
        assert_eq!(statements::claim(&jobs, "a", "me", 1.0, 2.0).unwrap(), Ok(1));
        assert_eq!(statements::release(&jobs, "a", "me", 1, 0.0).unwrap(), Ok(()));
        assert_eq!(statements::claim(&jobs, "a", "me", 1.0, 2.0).unwrap(), Ok(2));
    }

    #[test]
    fn a_table_without_row_numbers_goes_by_id() {
        let sql = table(true);
        let jobs = Jobs::of(&sql);
        sql.execute_batch("INSERT INTO jobs(id) VALUES ('b'), ('a'); INSERT INTO jobs(id, owner, until) VALUES ('c', 'x', 1)")
            .unwrap();
        assert_eq!(ids(claim(&jobs, "me", 1.0, 2.0, 5)), ["c", "a", "b"]);
        assert_eq!(statements::release(&jobs, "a", "me", 1, 0.0).unwrap(), Ok(()));
    }

    #[test]
    fn both_searches_go_by_the_index_and_sort_nothing() {
        for (without_rowid, column) in [(true, 0), (false, 1)] {
            let sql = table(without_rowid);
            for search in [OVER[column], WAITING[column]] {
                let plan: String = sql
                    .query_row(&format!("EXPLAIN QUERY PLAN {search}"), params![1.0, 1], |row| row.get(3))
                    .unwrap();
                assert!(plan.contains("USING INDEX fencepost_claimable (until"), "{plan}");
                let steps: i64 = sql
                    .prepare(&format!("EXPLAIN QUERY PLAN {search}"))
                    .unwrap()
                    .query_map(params![1.0, 1], |_| Ok(()))
                    .unwrap()
                    .count() as i64;
                assert_eq!(steps, 1, "{search}");
            }
        }
    }
}
