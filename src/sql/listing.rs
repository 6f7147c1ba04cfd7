//! Jobs by condition, for people who look.

use rusqlite::params;

use super::schema::Jobs;
use super::sound::sound;
use super::statements::job;
use crate::core::error::Error;
use crate::core::job::{Condition, Job};

/// The condition in SQL; ?1 is now. All of them name it, so that all have the same parameters.
fn filter(condition: Condition) -> &'static str {
    match condition {
        // As `next` finds it.
        Condition::Claimable => {
            concat!("done = 0 AND until <= ?1 AND fence < 9223372036854775807 AND ", sound!())
        }
        Condition::Held => concat!("done = 0 AND until > ?1 AND owner IS NOT NULL AND ", sound!()),
        Condition::Delayed => {
            concat!("done = 0 AND iif(until > ?1, owner IS NULL, fence = 9223372036854775807) AND ", sound!())
        }
        Condition::Done => concat!("done = 1 AND ?1 IS NOT NULL AND ", sound!()),
        Condition::Broken => concat!("?1 IS NOT NULL AND NOT ", sound!()),
    }
}

/// What a person is given for a broken row, whatever its id is: the condition in SQL that finds it. A row without an id
/// is found by its number, if the rows have numbers, and so is one whose id is long.
macro_rules! name {
    ($first:literal) => {
        concat!(
            "CASE ",
            $first,
            " WHEN id IS NULL THEN 'id IS NULL'
              WHEN typeof(id) = 'blob' OR fencepost_sound(id, NULL, 0.0, 0, NULL, 0) THEN 'id = ' || quote(id)
              ELSE 'id = CAST(X''' || hex(id) || ''' AS TEXT)' END"
        )
    };
}

const NAME: &str = name!("");
const NAME_OR_NUMBER: &str = name!("WHEN id IS NULL OR octet_length(id) > 200 THEN '_rowid_ = ' || _rowid_");

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
    let filter = filter(condition);
    let query = match condition {
        // What is in such a row may not be readable, so its name is all.
        Condition::Broken => format!(
            "SELECT name, NULL, 0.0, 0, NULL, 0 FROM (SELECT {} AS name FROM main.jobs WHERE {filter})
             WHERE name {from} ?2 ORDER BY name LIMIT ?3",
            if jobs.rowid { NAME_OR_NUMBER } else { NAME }
        ),
        _ => format!(
            "SELECT id, owner, until, fence, result, done FROM main.jobs
             WHERE {filter} AND id {from} ?2 COLLATE BINARY ORDER BY id COLLATE BINARY LIMIT ?3"
        ),
    };
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let mut statement = jobs.prepare_cached(&query)?;
    let mut rows = statement.query(params![now, after.unwrap_or(""), max])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(job(row)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::rules;
    use crate::sql::{order, schema, sound};
    use rusqlite::Connection;

    const READABLE: [Condition; 4] =
        [Condition::Claimable, Condition::Held, Condition::Delayed, Condition::Done];

    const BROKEN_ROWS: u64 = 21;
    const BROKEN: &str = "
        INSERT INTO jobs(id) VALUES (NULL), (NULL), (NULL), (x'41'), (x''), (zeroblob(201)), (zeroblob(202));
        INSERT INTO jobs(id) VALUES (CAST(x'ff' AS TEXT)), ('a' || char(0)), (char(0)), (CAST(zeroblob(203) AS TEXT));
        INSERT INTO jobs(id, until) VALUES ('soon', 'soon'), ('it''s', x'00');
        INSERT INTO jobs(id, fence) VALUES ('half', 1.5), ('one', 'one'), ('below', -1);
        INSERT INTO jobs(id, done) VALUES ('two', 2), ('', 'no');
        INSERT INTO jobs(id, owner) VALUES ('owner', x'41');
        INSERT INTO jobs(id, result, done) VALUES ('result', CAST(x'c0' AS TEXT), 1), ('early result', x'41', 0);";

    fn table(rows: &str) -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        schema::create_missing(&sql).unwrap();
        sound::install(&sql).unwrap();
        sql.execute_batch(rows).unwrap();
        sql
    }

    fn ids(jobs: Vec<Job>) -> Vec<String> {
        jobs.into_iter().map(|job| job.id).collect()
    }

    #[test]
    fn each_row_is_in_the_condition_that_the_rules_say() {
        let mut rows = BROKEN.to_owned();
        for (number, owner) in ["NULL", "'w'", "''"].iter().enumerate() {
            for (place, until) in ["0", "9.5", "10", "10.5", "-3"].iter().enumerate() {
                for fence in [1, i64::MAX] {
                    for done in 0..2 {
                        rows += &format!(
                            "INSERT INTO jobs VALUES ('{number}-{place}-{fence}-{done}', {owner}, {until}, {fence}, NULL, {done});"
                        );
                    }
                }
            }
        }
        let sql = table(&rows);
        let jobs = Jobs::of(&sql);
        for now in [-5.0, -0.0, 0.0, 9.0, 10.0, 11.0] {
            let mut all = Vec::new();
            for condition in READABLE {
                let found = list(&jobs, condition, now, None, 100).unwrap();
                assert!(found.iter().all(|job| rules::condition(job, now) == condition));
                assert_eq!(count(&jobs, condition, now).unwrap(), found.len() as u64);
                all.extend(ids(found));
            }
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 60, "each job is in one condition");
            assert_eq!(count(&jobs, Condition::Broken, now).unwrap(), BROKEN_ROWS);
        }
    }

    #[test]
    fn what_is_claimable_is_what_would_be_granted() {
        for now in [-5.0, 0.0, 5.0] {
            let sql = table(BROKEN);
            sql.execute_batch(
                "INSERT INTO jobs(id, until) VALUES ('early', -5), ('free', 0), ('over', 5), ('later', 5.5);
                 INSERT INTO jobs(id, fence) VALUES ('last', 9223372036854775807), ('last but one', 9223372036854775806)",
            )
            .unwrap();
            let jobs = Jobs::of(&sql);
            let claimable = ids(list(&jobs, Condition::Claimable, now, None, 100).unwrap());
            let grants = order::claim(&jobs, "w", now, now + 1.0, 100).unwrap().unwrap();
            let mut granted: Vec<_> = grants.into_iter().map(|grant| grant.id).collect();
            granted.sort();
            assert_eq!(granted, claimable);
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
    fn each_broken_row_is_on_one_page_under_a_name_that_finds_it_alone() {
        let sql = table(BROKEN);
        let jobs = Jobs::of(&sql);
        sql.execute_batch("INSERT INTO jobs(id) VALUES ('good')").unwrap();
        for size in [1, 2, 5, 100] {
            let mut names: Vec<String> = Vec::new();
            loop {
                let page =
                    list(&jobs, Condition::Broken, 1.0, names.last().map(String::as_str), size).unwrap();
                let is_last = page.len() < size;
                names.extend(ids(page));
                if is_last {
                    break;
                }
            }
            let mut numbers = Vec::new();
            for name in &names {
                let mut query = sql.prepare(&format!("SELECT rowid FROM jobs WHERE {name}")).unwrap();
                let found = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap);
                let found: Vec<i64> = found.collect();
                assert_eq!(found.len(), 1, "{name}");
                numbers.extend(found);
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=BROKEN_ROWS as i64).collect::<Vec<_>>(), "{names:?}");
        }
        let names = ids(list(&jobs, Condition::Broken, 1.0, None, 100).unwrap());
        for name in ["_rowid_ = 1", "_rowid_ = 11", "id = X'41'", "id = CAST(X'FF' AS TEXT)", "id = 'it''s'"]
        {
            assert!(names.iter().any(|given| given == name), "{name}: {names:?}");
        }
    }

    #[test]
    fn a_broken_row_without_a_number_is_named_by_its_id() {
        let sql = table(
            "DROP TABLE jobs;
             CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0,
                fence INTEGER NOT NULL DEFAULT 0, result TEXT, done INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
             INSERT INTO jobs(id) VALUES (x'41'), (zeroblob(300)), ('good')",
        );
        let names = ids(list(&Jobs::of(&sql), Condition::Broken, 1.0, None, 100).unwrap());
        assert_eq!(names, [format!("id = X'{}'", "00".repeat(300)), "id = X'41'".to_owned()]);
    }
}
