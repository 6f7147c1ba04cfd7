//! Which rows are jobs. Other programs write the table too, and SQLite lets them store any type; and what it calls
//! text need not be UTF-8, which no SQL of its own can tell.

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

/// In SQL: whether the row can be read as a job.
macro_rules! sound {
    () => {
        "fencepost_sound(id, owner, until, fence, result, done)"
    };
}
pub(crate) use sound;

/// Makes `sound!` known to the connection.
pub(crate) fn install(sql: &Connection) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    sql.create_scalar_function("fencepost_sound", 6, flags, |row| {
        Ok(is_sound([0, 1, 2, 3, 4, 5].map(|column| row.get_raw(column))))
    })
}

/// Whether `statements::job` reads this as a job.
fn is_sound([id, owner, until, fence, result, done]: [ValueRef<'_>; 6]) -> bool {
    is_text(id)
        && (owner == ValueRef::Null || is_text(owner))
        && matches!(until, ValueRef::Real(_))
        && matches!(fence, ValueRef::Integer(0..))
        && (result == ValueRef::Null || is_text(result))
        && matches!(done, ValueRef::Integer(0 | 1))
}

fn is_text(value: ValueRef<'_>) -> bool {
    value.as_str().is_ok_and(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::statements::job;

    /// Every kind of value in every column, as the column's own type leaves it.
    #[test]
    fn a_row_is_sound_when_it_can_be_read_as_a_job() {
        let sql = Connection::open_in_memory().unwrap();
        install(&sql).unwrap();
        sql.execute_batch(
            "CREATE TABLE jobs(id TEXT, owner TEXT, until REAL, fence INTEGER, result TEXT, done INTEGER)",
        )
        .unwrap();
        let values =
            "NULL  'w'  ''  '가'  x'41'  x''  CAST(x'ff' AS TEXT)  CAST(x'eab0' AS TEXT)  'a' || char(0)
            char(0)  0  1  2  -1  9223372036854775807  -9223372036854775808  1.5  9e999  -9e999";
        let values: Vec<_> = values.split("  ").map(str::trim).filter(|value| !value.is_empty()).collect();
        let right = ["'a'", "NULL", "0", "0", "NULL", "0"];
        for column in 0..right.len() {
            let mut seen = [false; 2];
            for value in &values {
                let mut row = right;
                row[column] = value;
                let row = row.join(", ");
                sql.execute_batch(&format!("DELETE FROM jobs; INSERT INTO jobs VALUES ({row})")).unwrap();
                let (read, said) = sql
                    .query_row(concat!("SELECT *, ", sound!(), " FROM jobs"), [], |row| {
                        Ok((job(row).is_ok(), row.get::<_, bool>(6)?))
                    })
                    .unwrap();
                assert_eq!(said, read, "{row}");
                seen[usize::from(said)] = true;
            }
            assert_eq!(seen, [true; 2]);
        }
    }
}
