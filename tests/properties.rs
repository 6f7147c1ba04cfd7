//! Random rows and random requests: what [`Db`] answers, and what it leaves in the table, is what a model
//! says that is written here once more, from the table of operations alone.
//!
//! One more operation is one more [`Request`], a line in [`requests`], an arm in [`model`] and in [`ask`], and its
//! answers in [`EVERY_ANSWER`].

use std::cell::RefCell;
use std::collections::BTreeSet;

use fencepost::{Answer, Condition, Db, Durability, Error, ErrorKind, Job, Lease, Options, Refusal};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// A moment: one of a few, or one that the job's own end decides.
#[derive(Clone, Copy, Debug)]
enum At {
    Clock(f64),
    JustBeforeEnd,
    End,
    JustAfterEnd,
}

/// A fence: one of a few, or one that the job's own decides.
#[derive(Clone, Copy, Debug)]
enum Fence {
    Number(i64),
    Current,
    Former,
}

/// An owner: one of a few, or the job's own.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Name(&'static str),
    Current,
}

/// What is asked about one id, or of the whole table; then the id is only what the values stand in relation to.
#[derive(Clone, Debug)]
enum Request {
    Enqueue,
    EnqueueAt(At),
    EnqueueMany(Vec<&'static str>),
    State,
    Claim(Owner, At, f64),
    ClaimMany(Vec<&'static str>, At, f64),
    ClaimNext(Owner, At, f64),
    ClaimBatch(Owner, At, f64, usize),
    Renew(Owner, Fence, At, f64),
    Complete(Owner, Fence, At, Option<&'static str>),
    CompleteAndClaimNext(Owner, Fence, At, Option<&'static str>, f64),
    Release(Owner, Fence),
    ReleaseAt(Owner, Fence, At),
    Count(Condition, At),
    List(Condition, At, Option<&'static str>, usize),
    ForceRelease,
    Requeue,
    Purge(f64, usize),
    RaiseFloor(i64),
    /// Another program makes, changes or deletes the row.
    Put(Option<Job>),
}

#[derive(Clone, Debug, PartialEq)]
enum Said {
    Ok,
    Granted(i64),
    /// Who of many was granted what.
    Won(String, i64),
    Grants(Vec<Lease>),
    Nobody,
    Nothing,
    Added(Vec<bool>),
    Read(Job),
    Counted(u64),
    Listed(Vec<Job>),
    Refused(Refusal),
    Failed(ErrorKind),
}

use Said::{Added, Counted, Failed, Granted, Grants, Listed, Nobody, Nothing, Read, Refused, Won};

impl Said {
    fn of<T>(answer: Answer<T>, value: impl FnOnce(T) -> Said) -> Said {
        match answer {
            Ok(Ok(given)) => value(given),
            Ok(Err(refused)) => Refused(refused.reason()),
            Err(error) => Failed(error.kind()),
        }
    }

    fn of_look<T>(answer: Result<T, Error>, value: impl FnOnce(T) -> Said) -> Said {
        Said::of(answer.map(Ok), value)
    }
}

// --- what is asked ---

const IDS: [&str; 4] = ["a", "A", "a ", ""];

fn ids() -> impl Strategy<Value = &'static str> {
    prop_oneof![1 => Just("a"), 4 => select(&IDS[..])]
}

fn names() -> impl Strategy<Value = &'static str> {
    select(vec!["w", "W", "w ", "", "작업자"])
}

fn owners() -> impl Strategy<Value = Owner> {
    prop_oneof![3 => Just(Owner::Current), 2 => names().prop_map(Owner::Name)]
}

/// Times of any clock, most of them around one moment.
fn times() -> impl Strategy<Value = f64> {
    let (ten, zero) = (10.0f64, 0.0f64);
    let near = vec![ten.next_down(), ten, ten.next_up(), 20.0, zero, -0.0, zero.next_up(), zero.next_down()];
    prop_oneof![
        4 => select(near),
        2 => select(vec![-10.0, -1.0, 0.1, 1.7e9, 9_007_199_254_740_992.0]),
        1 => select(vec![1e300, -1e300, f64::MAX, f64::MIN]),
        1 => any::<f64>().prop_filter("finite", |time| time.is_finite()),
    ]
}

fn moments() -> impl Strategy<Value = At> {
    prop_oneof![
        4 => times().prop_map(At::Clock),
        2 => Just(At::JustBeforeEnd),
        2 => Just(At::End),
        1 => Just(At::JustAfterEnd),
        1 => select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]).prop_map(At::Clock),
    ]
}

fn ttls() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => select(vec![10.0, 1.0, 0.1, 1e-15, 5e-324, 1e300, f64::MAX]),
        1 => select(vec![0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
    ]
}

fn fences() -> impl Strategy<Value = Fence> {
    let numbers = select(vec![0, 1, 2, -1, i64::MIN, i64::MAX - 1, i64::MAX]);
    prop_oneof![4 => Just(Fence::Current), 2 => Just(Fence::Former), 2 => numbers.prop_map(Fence::Number)]
}

fn results() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![None, Some(""), Some("r"), Some("it's \"결과\"\n🦊")])
}

fn maxima() -> impl Strategy<Value = usize> {
    select(vec![1, 2, 3, 9, usize::MAX, 0])
}

fn conditions() -> impl Strategy<Value = Condition> {
    use Condition::{Broken, Claimable, Delayed, Done, Held};
    select(vec![Claimable, Claimable, Held, Delayed, Done, Broken])
}

/// A row that a correct program may have left, without its id.
fn rows() -> impl Strategy<Value = Job> {
    let owner = prop::option::weighted(0.8, names());
    let fence = select(vec![0, 1, 2, 1 << 53, i64::MAX - 1, i64::MAX]);
    (owner, times(), fence, results(), prop::bool::weighted(0.15)).prop_map(
        |(owner, until, fence, result, done)| Job {
            id: String::new(),
            owner: owner.map(str::to_owned),
            until,
            fence,
            result: result.map(str::to_owned),
            done,
        },
    )
}

fn requests() -> impl Strategy<Value = Request> {
    use Request::*;
    prop_oneof![
        2 => Just(Enqueue),
        2 => moments().prop_map(EnqueueAt),
        1 => prop::collection::vec(ids(), 0..4).prop_map(EnqueueMany),
        1 => Just(State),
        6 => (owners(), moments(), ttls()).prop_map(|(owner, now, ttl)| Claim(owner, now, ttl)),
        1 => (prop::collection::vec(names(), 0..4), moments(), ttls())
            .prop_map(|(owners, now, ttl)| ClaimMany(owners, now, ttl)),
        3 => (owners(), moments(), ttls()).prop_map(|(owner, now, ttl)| ClaimNext(owner, now, ttl)),
        3 => (owners(), moments(), ttls(), maxima())
            .prop_map(|(owner, now, ttl, max)| ClaimBatch(owner, now, ttl, max)),
        6 => (owners(), fences(), moments(), ttls())
            .prop_map(|(owner, fence, now, ttl)| Renew(owner, fence, now, ttl)),
        4 => (owners(), fences(), moments(), results())
            .prop_map(|(owner, fence, now, result)| Complete(owner, fence, now, result)),
        4 => (owners(), fences(), moments(), results(), ttls())
            .prop_map(|(owner, fence, now, result, ttl)| CompleteAndClaimNext(owner, fence, now, result, ttl)),
        3 => (owners(), fences()).prop_map(|(owner, fence)| Release(owner, fence)),
        3 => (owners(), fences(), moments()).prop_map(|(owner, fence, at)| ReleaseAt(owner, fence, at)),
        2 => (conditions(), moments()).prop_map(|(condition, now)| Count(condition, now)),
        3 => (conditions(), moments(), prop::option::of(ids()), maxima())
            .prop_map(|(condition, now, after, max)| List(condition, now, after, max)),
        2 => Just(ForceRelease),
        3 => Just(Requeue),
        2 => (prop_oneof![3 => times(), 1 => select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN])], maxima())
            .prop_map(|(before, max)| Purge(before, max)),
        1 => select(vec![0, 1, 2, 3, -1, 1 << 53, i64::MAX]).prop_map(RaiseFloor),
        6 => prop::option::weighted(0.9, rows()).prop_map(Put),
    ]
}

impl At {
    fn now(self, job: Option<&Job>) -> f64 {
        let end = job.map_or(10.0, |job| job.until);
        match self {
            At::Clock(time) => time,
            At::JustBeforeEnd => end.next_down(),
            At::End => end,
            At::JustAfterEnd => end.next_up(),
        }
    }
}

impl Fence {
    fn number(self, job: Option<&Job>) -> i64 {
        let current = job.map_or(1, |job| job.fence);
        match self {
            Fence::Number(number) => number,
            Fence::Current => current,
            Fence::Former => current - 1,
        }
    }
}

impl Owner {
    fn name(self, job: Option<&Job>) -> String {
        match self {
            Owner::Name(name) => name.to_owned(),
            Owner::Current => job.and_then(|job| job.owner.clone()).unwrap_or_default(),
        }
    }
}

// --- the model ---

/// The jobs in the order of their rows, and what every fence is above.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table(Vec<Job>, i64);

/// Of a request that was refused or has failed, and so has changed nothing, what was said.
type Modelled<T> = Result<T, Said>;

fn invalid_unless(valid: bool) -> Modelled<()> {
    if valid { Ok(()) } else { Err(Failed(ErrorKind::InvalidArgument)) }
}

fn finite(time: f64) -> Modelled<f64> {
    invalid_unless(time.is_finite()).map(|()| time)
}

/// When a lease that begins at `now` is over.
fn lease(now: f64, ttl: f64) -> Modelled<f64> {
    let end = now + ttl;
    invalid_unless(now.is_finite() && ttl.is_finite() && ttl > 0.0 && end.is_finite() && end > now)?;
    Ok(end)
}

fn refused_if(refused: bool, refusal: Refusal) -> Modelled<()> {
    if refused { Err(Refused(refusal)) } else { Ok(()) }
}

impl Table {
    fn find(&mut self, id: &str) -> Modelled<&mut Job> {
        self.0.iter_mut().find(|job| job.id == id).ok_or(Refused(Refusal::NotFound))
    }

    fn unfinished(&mut self, id: &str) -> Modelled<&mut Job> {
        let job = self.find(id)?;
        refused_if(job.done, Refusal::Done)?;
        Ok(job)
    }

    fn own(&mut self, id: &str, owner: &str, fence: i64) -> Modelled<&mut Job> {
        let job = self.unfinished(id)?;
        refused_if(job.owner.as_deref() != Some(owner) || job.fence != fence, Refusal::Stale)?;
        Ok(job)
    }

    fn hold(&mut self, id: &str, owner: &str, fence: i64, now: f64) -> Modelled<&mut Job> {
        let job = self.own(id, owner, fence)?;
        refused_if(now >= job.until, Refusal::Expired)?;
        Ok(job)
    }

    fn enqueue(&mut self, id: &str, until: f64) -> Modelled<()> {
        refused_if(self.find(id).is_ok(), Refusal::Exists)?;
        let id = id.to_owned();
        self.0.push(Job { id, owner: None, until, fence: 0, result: None, done: false });
        Ok(())
    }

    fn claim(&mut self, id: &str, owner: &str, now: f64, end: f64) -> Modelled<i64> {
        let floor = self.1;
        let job = self.unfinished(id)?;
        refused_if(job.until > now, Refusal::Held)?;
        job.fence = above(floor, job.fence)?;
        job.owner = Some(owner.to_owned());
        job.until = end;
        Ok(job.fence)
    }

    fn force_release(&mut self, id: &str) -> Modelled<i64> {
        let floor = self.1;
        let job = self.unfinished(id)?;
        job.fence = above(floor, job.fence)?;
        job.owner = None;
        job.until = 0.0;
        Ok(job.fence)
    }

    fn requeue(&mut self, id: &str) -> Modelled<()> {
        let job = self.find(id)?;
        refused_if(!job.done, Refusal::Exists)?;
        let again = Job { owner: None, until: 0.0, result: None, done: false, ..job.clone() };
        self.move_to_the_end(again);
        Ok(())
    }

    fn move_to_the_end(&mut self, job: Job) {
        self.0.retain(|other| other.id != job.id);
        self.0.push(job);
    }

    fn purge(&mut self, before: f64, max: usize) -> usize {
        let goes = |job: &Job| job.done && job.until <= before && job.fence < i64::MAX;
        let purged: Vec<_> = self.0.iter().filter(|job| goes(job)).take(max).cloned().collect();
        purged.iter().for_each(|job| self.remove(&job.id));
        purged.len()
    }

    fn remove(&mut self, id: &str) {
        let fence = self.find(id).map_or(0, |job| job.fence);
        self.1 = self.1.max(fence);
        self.0.retain(|job| job.id != id);
    }

    fn raise_floor(&mut self, to: i64) {
        self.1 = self.1.max(to);
        for job in self.0.iter_mut().filter(|job| !job.done && job.owner.is_some() && job.fence <= to) {
            job.owner = None;
            job.until = 0.0;
        }
    }

    /// Claims up to `max` jobs: leases that ran out and delays that are over first, those over the longest before
    /// the others; then those that wait, in the order of their rows.
    fn claim_next(&mut self, owner: &str, now: f64, end: f64, max: usize) -> Modelled<Vec<Lease>> {
        let mut line: Vec<_> =
            self.0.iter().filter(|job| condition(job, now) == Condition::Claimable).collect();
        line.sort_by(|a, b| (a.until <= 0.0, a.until).partial_cmp(&(b.until <= 0.0, b.until)).unwrap());
        let line: Vec<_> = line.into_iter().take(max).map(|job| job.id.clone()).collect();
        line.into_iter()
            .map(|id: String| Ok(Lease { fence: self.claim(&id, owner, now, end)?, id }))
            .collect()
    }

    fn complete(
        &mut self,
        id: &str,
        owner: &str,
        fence: i64,
        now: f64,
        result: Option<&str>,
    ) -> Modelled<()> {
        let job = self.hold(id, owner, fence, now)?;
        job.result = result.map(str::to_owned);
        job.done = true;
        Ok(())
    }

    fn release(&mut self, id: &str, owner: &str, fence: i64, until: f64) -> Modelled<()> {
        let job = self.own(id, owner, fence)?;
        let released = Job { owner: None, until, ..job.clone() };
        self.move_to_the_end(released);
        Ok(())
    }

    /// The jobs in the condition, in the order of their ids.
    fn in_condition(&self, which: Condition, now: f64) -> Vec<Job> {
        let mut jobs: Vec<_> = self.0.iter().filter(|job| condition(job, now) == which).cloned().collect();
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        jobs
    }
}

/// The next fence.
fn above(floor: i64, fence: i64) -> Modelled<i64> {
    fence.max(floor).checked_add(1).ok_or(Failed(ErrorKind::FenceExhausted))
}

fn condition(job: &Job, now: f64) -> Condition {
    if job.done {
        Condition::Done
    } else if job.until <= now {
        if job.fence < i64::MAX { Condition::Claimable } else { Condition::Delayed }
    } else if job.owner.is_some() {
        Condition::Held
    } else {
        Condition::Delayed
    }
}

/// What the request is told, and what it does to the table. `said` is what the library said, for what is not the model's
/// to say: who of many is granted.
fn model(table: &mut Table, id: &str, request: &Request, said: &Said) -> Modelled<Said> {
    let before = table.find(id).ok().cloned();
    let job = before.as_ref();
    match request {
        Request::Enqueue => table.enqueue(id, 0.0).map(|()| Said::Ok),
        Request::EnqueueAt(at) => {
            let not_before = finite(at.now(job))?;
            table.enqueue(id, not_before).map(|()| Said::Ok)
        }
        Request::EnqueueMany(ids) => {
            let added: Vec<_> = ids.iter().map(|id| table.enqueue(id, 0.0).is_ok()).collect();
            refused_if(!added.is_empty() && !added.contains(&true), Refusal::Exists)?;
            Ok(Added(added))
        }
        Request::State => table.find(id).map(|job| Read(job.clone())),
        Request::Claim(owner, now, ttl) => {
            let now = now.now(job);
            let end = lease(now, *ttl)?;
            table.claim(id, &owner.name(job), now, end).map(Granted)
        }
        Request::ClaimMany(owners, now, ttl) => {
            let now = now.now(job);
            let end = lease(now, *ttl)?;
            let Some(first) = owners.first() else { return Ok(Nobody) };
            let winner = match said {
                Won(winner, _) if owners.contains(&winner.as_str()) => winner,
                _ => *first,
            };
            table.claim(id, winner, now, end).map(|fence| Won(winner.to_owned(), fence))
        }
        Request::ClaimNext(owner, now, ttl) => {
            let now = now.now(job);
            let end = lease(now, *ttl)?;
            let grants = table.claim_next(&owner.name(job), now, end, 1)?;
            refused_if(grants.is_empty(), Refusal::NotFound)?;
            Ok(Grants(grants))
        }
        Request::ClaimBatch(owner, now, ttl, max) => {
            let now = now.now(job);
            let end = lease(now, *ttl)?;
            invalid_unless(*max > 0)?;
            let grants = table.claim_next(&owner.name(job), now, end, *max)?;
            refused_if(grants.is_empty(), Refusal::NotFound)?;
            Ok(Grants(grants))
        }
        Request::Renew(owner, fence, now, ttl) => {
            let now = now.now(job);
            let end = lease(now, *ttl)?;
            table.hold(id, &owner.name(job), fence.number(job), now)?.until = end;
            Ok(Said::Ok)
        }
        Request::Complete(owner, fence, now, result) => {
            let now = finite(now.now(job))?;
            table.complete(id, &owner.name(job), fence.number(job), now, *result).map(|()| Said::Ok)
        }
        Request::CompleteAndClaimNext(owner, fence, now, result, ttl) => {
            let now = now.now(job);
            let end = lease(now, *ttl)?;
            table.complete(id, &owner.name(job), fence.number(job), now, *result)?;
            let grants = table.claim_next(&owner.name(job), now, end, 1)?;
            Ok(if grants.is_empty() { Nothing } else { Grants(grants) })
        }
        Request::Release(owner, fence) => {
            table.release(id, &owner.name(job), fence.number(job), 0.0).map(|()| Said::Ok)
        }
        Request::ReleaseAt(owner, fence, at) => {
            let not_before = finite(at.now(job))?;
            table.release(id, &owner.name(job), fence.number(job), not_before).map(|()| Said::Ok)
        }
        Request::Count(which, now) => {
            Ok(Counted(table.in_condition(*which, finite(now.now(job))?).len() as u64))
        }
        Request::List(which, now, after, max) => {
            let now = finite(now.now(job))?;
            invalid_unless(*max > 0)?;
            let mut jobs = table.in_condition(*which, now);
            jobs.retain(|job| after.is_none_or(|after| job.id.as_str() > after));
            jobs.truncate(*max);
            Ok(Listed(jobs))
        }
        Request::ForceRelease => table.force_release(id).map(Granted),
        Request::Requeue => table.requeue(id).map(|()| Said::Ok),
        Request::Purge(before, max) => {
            invalid_unless(*before > f64::NEG_INFINITY && *max > 0)?;
            Ok(Counted(table.purge(*before, *max) as u64))
        }
        Request::RaiseFloor(to) => {
            invalid_unless((0..i64::MAX).contains(to))?;
            table.raise_floor(*to);
            Ok(Said::Ok)
        }
        Request::Put(_) => unreachable!(),
    }
}

// --- the library, and another program beside it ---

/// Asks the library. `job` is the row before, which some of the request's values stand in relation to.
fn ask(db: &Db, id: &str, job: Option<&Job>, request: &Request) -> Said {
    let done = |()| Said::Ok;
    match request {
        Request::Enqueue => Said::of(db.enqueue(id), done),
        Request::EnqueueAt(at) => Said::of(db.enqueue_at(id, at.now(job)), done),
        Request::EnqueueMany(ids) => Said::of(db.enqueue_many(ids), Added),
        Request::State => Said::of(db.state(id), Read),
        Request::Claim(owner, now, ttl) => {
            Said::of(db.claim(id, &owner.name(job), now.now(job), *ttl), Granted)
        }
        Request::ClaimMany(owners, now, ttl) => {
            Said::of(db.claim_many(id, owners, now.now(job), *ttl), |fences| {
                assert_eq!(fences.len(), owners.len());
                let granted: Vec<_> =
                    owners.iter().zip(fences).filter_map(|(owner, fence)| Some((*owner, fence?))).collect();
                match granted[..] {
                    [] => Nobody,
                    [(owner, fence)] => Won(owner.to_owned(), fence),
                    _ => panic!("more than one was granted: {granted:?}"),
                }
            })
        }
        Request::ClaimNext(owner, now, ttl) => {
            Said::of(db.claim_next(&owner.name(job), now.now(job), *ttl), |grant| Grants(vec![grant]))
        }
        Request::ClaimBatch(owner, now, ttl, max) => {
            Said::of(db.claim_batch(&owner.name(job), now.now(job), *ttl, *max), Grants)
        }
        Request::Renew(owner, fence, now, ttl) => {
            Said::of(db.renew(id, &owner.name(job), fence.number(job), now.now(job), *ttl), done)
        }
        Request::Complete(owner, fence, now, result) => {
            Said::of(db.complete(id, &owner.name(job), fence.number(job), now.now(job), *result), done)
        }
        Request::CompleteAndClaimNext(owner, fence, now, result, ttl) => {
            let (owner, fence, now) = (owner.name(job), fence.number(job), now.now(job));
            Said::of(db.complete_and_claim_next(id, &owner, fence, now, *result, *ttl), |next| {
                next.map_or(Nothing, |grant| Grants(vec![grant]))
            })
        }
        Request::Release(owner, fence) => Said::of(db.release(id, &owner.name(job), fence.number(job)), done),
        Request::ReleaseAt(owner, fence, at) => {
            Said::of(db.release_at(id, &owner.name(job), fence.number(job), at.now(job)), done)
        }
        Request::Count(which, now) => Said::of_look(db.count(*which, now.now(job)), Counted),
        Request::List(which, now, after, max) => {
            Said::of_look(db.list(*which, now.now(job), *after, *max), Listed)
        }
        Request::ForceRelease => Said::of(db.force_release(id), Granted),
        Request::Requeue => Said::of(db.requeue(id), done),
        Request::Purge(before, max) => Said::of_look(db.purge(*before, *max), Counted),
        Request::RaiseFloor(to) => Said::of_look(db.raise_floor(*to), done),
        Request::Put(_) => unreachable!(),
    }
}

fn put(sql: &rusqlite::Connection, table: &mut Table, id: &str, job: Option<&Job>) {
    sql.execute("DELETE FROM jobs WHERE id = ?1", [id]).unwrap();
    table.remove(id);
    if let Some(job) = job {
        let values = rusqlite::params![id, job.owner, job.until, job.fence, job.result, job.done];
        sql.execute("INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6)", values).unwrap();
        table.0.push(Job { id: id.to_owned(), ..job.clone() });
    }
}

fn whole(sql: &rusqlite::Connection) -> Table {
    let mut rows =
        sql.prepare_cached("SELECT id, owner, until, fence, result, done FROM jobs ORDER BY rowid").unwrap();
    let jobs = rows.query_map([], |row| {
        Ok(Job {
            id: row.get(0)?,
            owner: row.get(1)?,
            until: row.get(2)?,
            fence: row.get(3)?,
            result: row.get(4)?,
            done: row.get(5)?,
        })
    });
    let floor = sql.query_row("SELECT floor FROM fencepost_meta", [], |row| row.get(0)).unwrap();
    Table(jobs.unwrap().map(Result::unwrap).collect(), floor)
}

/// A request's name and what it was told, for the list of what was seen.
fn kind(request: &Request, said: &Said) -> (String, String) {
    let word = |debug: String| debug.split(['(', '[', ' ']).next().unwrap_or_default().to_owned();
    let said = match said {
        Refused(refusal) => format!("{refusal:?}"),
        Failed(kind) => format!("{kind:?}"),
        value => word(format!("{value:?}")),
    };
    (word(format!("{request:?}")), said)
}

/// All that the operations may be told. (CompleteAndClaimNext can also be FenceExhausted, which these requests do not meet.)
const EVERY_ANSWER: &[(&str, &[&str])] = &[
    ("Enqueue", &["Ok", "Exists"]),
    ("EnqueueAt", &["Ok", "Exists", "InvalidArgument"]),
    ("EnqueueMany", &["Added", "Exists"]),
    ("State", &["Read", "NotFound"]),
    ("Claim", &["Granted", "NotFound", "Done", "Held", "FenceExhausted", "InvalidArgument"]),
    ("ClaimMany", &["Won", "Nobody", "NotFound", "Done", "Held", "FenceExhausted", "InvalidArgument"]),
    ("ClaimNext", &["Grants", "NotFound", "FenceExhausted", "InvalidArgument"]),
    ("ClaimBatch", &["Grants", "NotFound", "FenceExhausted", "InvalidArgument"]),
    ("Renew", &["Ok", "NotFound", "Done", "Stale", "Expired", "InvalidArgument"]),
    ("Complete", &["Ok", "NotFound", "Done", "Stale", "Expired", "InvalidArgument"]),
    (
        "CompleteAndClaimNext",
        &["Grants", "Nothing", "NotFound", "Done", "Stale", "Expired", "InvalidArgument"],
    ),
    ("Release", &["Ok", "NotFound", "Done", "Stale"]),
    ("ReleaseAt", &["Ok", "NotFound", "Done", "Stale", "InvalidArgument"]),
    ("Count", &["Counted", "InvalidArgument"]),
    ("List", &["Listed", "InvalidArgument"]),
    ("ForceRelease", &["Granted", "NotFound", "Done", "FenceExhausted"]),
    ("Requeue", &["Ok", "NotFound", "Exists"]),
    ("Purge", &["Counted", "InvalidArgument"]),
    ("RaiseFloor", &["Ok", "InvalidArgument"]),
];

#[test]
fn the_library_answers_and_stores_what_the_table_of_operations_says() {
    // No syncs: this is about the rules.
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let seen = RefCell::new(BTreeSet::new());
    let run = |steps: Vec<(bool, &'static str, Request)>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let handles = [Db::open(&path, &options).unwrap(), Db::open(&path, &options).unwrap()];
        handles[0].init_db().unwrap();
        let sql = rusqlite::Connection::open(&path).unwrap();
        sql.pragma_update(None, "synchronous", "OFF").unwrap();
        let mut table = Table::default();
        for (handle, id, request) in &steps {
            if let Request::Put(job) = request {
                put(&sql, &mut table, id, job.as_ref());
                continue;
            }
            let before = table.clone();
            let job = before.0.iter().find(|job| job.id == *id);
            let said = ask(&handles[usize::from(*handle)], id, job, request);
            // What is refused or fails changes nothing.
            let expected = model(&mut table, id, request, &said).unwrap_or_else(|refused| {
                table = before.clone();
                refused
            });
            prop_assert_eq!(&said, &expected, "{:?} on {:?} in {:?}", request, id, before);
            prop_assert_eq!(&whole(&sql), &table, "after {:?} on {:?} in {:?}", request, id, before);
            seen.borrow_mut().insert(kind(request, &said));
        }
        Ok::<(), TestCaseError>(())
    };

    // Always the same requests: a failure that comes and goes helps nobody.
    let config = Config { cases: 800, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let steps = prop::collection::vec((any::<bool>(), ids(), requests()), 1..40);
    if let Err(failure) = runner.run(&steps, run) {
        panic!("{failure}");
    }

    let every: BTreeSet<_> = EVERY_ANSWER
        .iter()
        .flat_map(|(request, answers)| answers.iter().map(|said| (request.to_string(), said.to_string())))
        .collect();
    assert_eq!(seen.into_inner(), every, "the requests are too few to meet every answer");
}
