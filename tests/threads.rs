//! Many threads on one handle. `scripts/tsan` looks for data races with the same from C (`tests/abi/threads.c`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use fencepost::{Answer, Db, Durability, Options, Refusal};

const THREADS: usize = 32;
const SHARED: usize = 8;
const ROUNDS: usize = 30;

fn open(folder: &tempfile::TempDir) -> Db {
    // Speed, since the disk is not what is looked at here; and patience, for machines that are busy.
    let options = Options {
        durability: Durability::Normal,
        busy_timeout: Duration::from_secs(600),
        ..Options::default()
    };
    Db::open(folder.path().join("jobs.db"), &options).unwrap()
}

/// The value, or none where a lease was lost, as leases are when other threads' clocks run on.
fn kept<T>(answer: Answer<T>) -> Option<T> {
    match answer.unwrap() {
        Ok(value) => Some(value),
        Err(refused) => match refused.reason() {
            Refusal::Held | Refusal::Done | Refusal::Stale | Refusal::Expired => None,
            _ => panic!("{refused:?}"),
        },
    }
}

#[test]
fn threads_on_one_handle_are_granted_each_fence_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder);
    db.init_db().unwrap();
    let shared: Vec<String> = (0..SHARED).map(|number| format!("shared {number}")).collect();
    for id in &shared {
        db.enqueue(id).unwrap().unwrap();
    }

    let start = Barrier::new(THREADS);
    let clock = AtomicI64::new(0);
    let now = || clock.fetch_add(1, Ordering::Relaxed) as f64;
    let grants = Mutex::new(HashMap::new());
    let results = Mutex::new(HashMap::new());

    thread::scope(|scope| {
        for number in 0..THREADS {
            let (db, shared, start, grants, results, now) = (&db, &shared, &start, &grants, &results, &now);
            scope.spawn(move || {
                let owner = format!("thread {number}");
                start.wait();
                for round in 0..ROUNDS {
                    let id = &shared[(number + round) % SHARED];
                    assert_eq!(db.state(id).unwrap().unwrap().id, *id);
                    let Some(fence) = kept(db.claim(id, &owner, now(), 20.0)) else { continue };
                    let before = grants.lock().unwrap().insert((id.clone(), fence), owner.clone());
                    assert_eq!(before, None, "fence {fence} of {id} was granted twice");
                    match round % 4 {
                        0 => {}
                        1 => _ = kept(db.release(id, &owner, fence)),
                        2 => _ = kept(db.renew(id, &owner, fence, now(), 20.0)),
                        _ => {
                            if kept(db.complete(id, &owner, fence, now(), Some(&owner))).is_some() {
                                let before =
                                    results.lock().unwrap().insert(id.clone(), (fence, owner.clone()));
                                assert_eq!(before, None, "{id} was completed twice");
                            }
                        }
                    }
                }
            });
        }
    });

    let (grants, results) = (grants.into_inner().unwrap(), results.into_inner().unwrap());
    for id in &shared {
        let job = db.state(id).unwrap().unwrap();
        assert_eq!(grants.keys().filter(|(other, _)| other == id).count() as i64, job.fence);
        let completed = job.done.then(|| (job.fence, job.result.unwrap()));
        assert_eq!(results.get(id), completed.as_ref());
    }
    assert!(!results.is_empty());
}

#[test]
fn claims_of_many_at_once_on_several_handles_grant_one_fence_each() {
    let folder = tempfile::tempdir().unwrap();
    let handles: Vec<Db> = (0..4).map(|_| open(&folder)).collect();
    handles[0].init_db().unwrap();
    handles[0].enqueue("a").unwrap().unwrap();
    let owners: Vec<String> = (0..10).map(|number| format!("owner {number}")).collect();
    let owners: Vec<&str> = owners.iter().map(String::as_str).collect();

    let granted: i64 = thread::scope(|scope| {
        let claims: Vec<_> = handles
            .iter()
            .map(|db| scope.spawn(|| kept(db.claim_many("a", &owners, 0.0, 1.0)).unwrap_or_default()))
            .collect();
        claims.into_iter().flat_map(|claim| claim.join().unwrap()).flatten().sum()
    });
    assert_eq!(granted, 1);
}
