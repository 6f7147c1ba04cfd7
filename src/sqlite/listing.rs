//! Jobs by condition, for people who look.

use rusqlite::params;

use super::schema::Jobs;
use super::statements::{broken_row, job};
use crate::error::Error;
use crate::rules::{Condition, Job, shown};

/// The condition in SQL; ?1 is now.
fn filter(condition: Condition) -> &'static str {
    match condition {
        Condition::Claimable => "done = 0 AND until <= ?1",
        Condition::Held => "done = 0 AND until > ?1 AND owner IS NOT NULL",
        Condition::Delayed => "done = 0 AND until > ?1 AND owner IS NULL",
        // With the parameter, so that all four have the same.
        Condition::Done => "done = 1 AND ?1 IS NOT NULL",
    }
}

/// How many jobs are in the condition.
pub(crate) fn count(jobs: &Jobs<'_>, condition: Condition, now: f64) -> Result<u64, Error> {
    let query = format!("SELECT count(*) FROM main.jobs WHERE {}", filter(condition));
    let count: i64 = jobs.prepare_cached(&query)?.query_row([now], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Up to `max` jobs in the condition, in the order of their ids, from the first one after `after` on.
pub(crate) fn list(
    jobs: &Jobs<'_>,
    condition: Condition,
    now: f64,
    after: Option<&str>,
    max: usize,
) -> Result<Vec<Job>, Error> {
    // The empty string is an id too.
    let from = if after.is_some() { ">" } else { ">=" };
    let query = format!(
        "SELECT id, owner, until, fence, result, done FROM main.jobs
         WHERE {} AND id {from} ?2 COLLATE BINARY ORDER BY id COLLATE BINARY LIMIT ?3",
        filter(condition)
    );
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let mut statement = jobs.prepare_cached(&query)?;
    let mut rows = statement.query(params![now, after.unwrap_or(""), max])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = || row.get_ref(0).ok().and_then(|id| id.as_str().ok().map(shown));
        let whose = |error| broken_row(&id().unwrap_or_else(|| "whose id is no text".to_owned()), &error);
        found.push(job(row).map_err(whose)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::rules;
    use crate::sqlite::schema;
    use rusqlite::Connection;

    const ALL: [Condition; 4] = [Condition::Claimable, Condition::Held, Condition::Delayed, Condition::Done];

    fn table(rows: &str) -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        schema::create_missing(&sql).unwrap();
        sql.execute_batch(rows).unwrap();
        sql
    }

    fn ids(jobs: Vec<Job>) -> Vec<String> {
        jobs.into_iter().map(|job| job.id).collect()
    }

    #[test]
    fn each_job_is_in_the_condition_that_the_rules_say() {
        let mut rows = String::new();
        for (number, owner) in ["NULL", "'w'", "''"].iter().enumerate() {
            for (place, until) in ["0", "9.5", "10", "10.5", "-3"].iter().enumerate() {
                for done in 0..2 {
                    rows += &format!(
                        "INSERT INTO jobs VALUES ('{number}{place}{done}', {owner}, {until}, 1, NULL, {done});"
                    );
                }
            }
        }
        let sql = table(&rows);
        let jobs = Jobs::of(&sql);
        for now in [-5.0, 0.0, 9.0, 10.0, 11.0] {
            let mut all = Vec::new();
            for condition in ALL {
                let found = list(&jobs, condition, now, None, 100).unwrap();
                assert!(found.iter().all(|job| rules::condition(job, now) == condition));
                assert_eq!(count(&jobs, condition, now).unwrap(), found.len() as u64);
                all.extend(ids(found));
            }
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 30, "each job is in one condition");
        }
    }

    #[test]
    fn pages_follow_each_other_in_the_order_of_the_bytes() {
        let sql = table("INSERT INTO jobs(id) VALUES ('b'), (''), ('B'), ('a'), ('a '), ('가')");
        let jobs = Jobs::of(&sql);
        let page = |after| ids(list(&jobs, Condition::Claimable, 1.0, after, 2).unwrap());
        assert_eq!(page(None), ["", "B"]);
        assert_eq!(page(Some("")), ["B", "a"]);
        assert_eq!(page(Some("B")), ["a", "a "]);
        assert_eq!(page(Some("a ")), ["b", "가"]);
        assert!(page(Some("가")).is_empty());
    }

    #[test]
    fn a_row_that_is_no_job_is_corrupt_and_named() {
        let sql = table("INSERT INTO jobs(id, fence) VALUES ('odd', 1.5)");
        let error = list(&Jobs::of(&sql), Condition::Claimable, 1.0, None, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("odd"), "{error}");
    }
}
