//! Notices that a file was set back: restored from a backup, emptied, or replaced by another one.
//!
//! From the table alone that cannot be seen, and fences would be granted a second time. So the page that the processes
//! share (see [`super::shared_page`]) remembers the newest grant. All that is in a file was written in one order, so when it
//! has that grant, it has all before it; when it has not, it was set back, and the floor is to be lifted above the
//! highest fence that the page knows.
//!
//! A grant is noted before its commit and confirmed after it, each with the number of the write. Who is killed in
//! between has told nobody of the grant; then the one before it, which is in the other place, counts. What a crash of the
//! machine has left of a note is told by its checksum.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::shared_page::{LazyPage, Write, is_through};
use crate::core::error::Error;
use crate::core::job::Lease;
use crate::os::page::{NotedLease, Page};
use crate::process::guard::ForkGuard;

/// With SQLite's write lock held, before the commit.
pub(super) fn note(page: &Page, write: Write, grant: &Lease) {
    let last = page.last_granted.load(Acquire);
    let [first, second] = &page.grants;
    let numbers = [first, second].map(|noted| noted.write.load(Relaxed));
    // Not in the place of the one that counts until this one is confirmed.
    let older = if numbers[0] == last || is_through(numbers[1], numbers[0]) { second } else { first };
    let highest = highest_fence(page).max(grant.fence);
    store(if numbers[1] == last { first } else { older }, write, grant, highest);
}

/// The highest fence that a file's page knows of; 0 when there is none.
pub(super) fn highest_fence_known(shared_page: &LazyPage) -> i64 {
    let _guard = ForkGuard::enter();
    shared_page.find(None).ok().flatten().map_or(0, |page| highest_fence(page.words()))
}

/// The highest fence that the page knows of; 0 when it knows of none.
pub(super) fn highest_fence(page: &Page) -> i64 {
    let noted = page.grants.iter().filter(|place| place.checksum.load(Acquire) == checksum(place));
    noted.map(|place| place.highest_fence.load(Relaxed)).max().unwrap_or(0)
}

/// After the commit, before anybody is told of the grant.
pub(super) fn confirm(page: &Page, write: Write) {
    let _ = page
        .last_granted
        .fetch_update(AcqRel, Acquire, |last| is_through(last, write.number()).then_some(write.number()));
}

/// With SQLite's write lock held: whether the file was set back, by a look whether it has a grant.
pub(super) fn is_set_back(
    page: &Page,
    mut has: impl FnMut(&Lease) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let last = page.last_granted.load(Acquire);
    let mut noted: Vec<_> = page.grants.iter().filter_map(load).collect();
    if let [(first, _), (second, _)] = &noted[..]
        && is_through(*first, *second)
    {
        noted.reverse();
    }
    for (number, grant) in noted {
        // Of an id that is too long to be noted nothing can be said.
        if grant.as_ref().is_none_or(|grant| has(grant).unwrap_or(false)) {
            return Ok(false);
        }
        if is_through(number, last) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn store(place: &NotedLease, write: Write, Lease { id, fence }: &Lease, highest: i64) {
    // Should the machine stop in the middle, then the checksum is wrong.
    place.write.store(write.number(), Release);
    place.length.store(u32::try_from(id.len()).unwrap_or(u32::MAX), Relaxed);
    place.fence.store(*fence, Relaxed);
    place.highest_fence.store(highest, Relaxed);
    for (word, part) in place.id.iter().zip(id.as_bytes().chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        word.store(u64::from_ne_bytes(bytes), Relaxed);
    }
    place.checksum.store(checksum(place), Release);
}

/// The number of the write and the grant, without one when its id was too long; `None` when nothing was noted whole.
fn load(place: &NotedLease) -> Option<(u32, Option<Lease>)> {
    if place.checksum.load(Acquire) != checksum(place) {
        return None;
    }
    let number = place.write.load(Relaxed);
    let length = place.length.load(Relaxed) as usize;
    let bytes: Vec<u8> = place.id.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    let Some(id) = bytes.get(..length) else { return Some((number, None)) };
    let id = String::from_utf8(id.to_vec()).ok()?;
    Some((number, Some(Lease { id, fence: place.fence.load(Relaxed) })))
}

/// FNV-1a (<https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>) over words, of what is in use. Never 0, which is
/// what an unused place has.
fn checksum(place: &NotedLease) -> u64 {
    let length = place.length.load(Relaxed);
    let head = [
        u64::from(place.write.load(Relaxed)),
        u64::from(length),
        place.fence.load(Relaxed).cast_unsigned(),
        place.highest_fence.load(Relaxed).cast_unsigned(),
    ];
    let words = place.id.iter().take((length as usize).div_ceil(8)).map(|word| word.load(Relaxed));
    let sum = head
        .into_iter()
        .chain(words)
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3));
    sum | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        Page::default()
    }

    fn grant(id: &str, fence: i64) -> Lease {
        Lease { id: id.to_owned(), fence }
    }

    fn granted(page: &Page, number: u32, id: &str, fence: i64) {
        note(page, Write::of(number), &grant(id, fence));
        confirm(page, Write::of(number));
    }

    /// Of a file that has these grants alone.
    fn set_back(page: &Page, has: &[(&str, i64)]) -> bool {
        is_set_back(page, |noted| Ok(has.iter().any(|(id, fence)| noted.id == *id && noted.fence <= *fence)))
            .unwrap()
    }

    #[test]
    fn a_new_page_knows_of_no_grant() {
        assert!(!set_back(&page(), &[]));
    }

    #[test]
    fn a_file_without_the_newest_grant_was_set_back() {
        let page = page();
        granted(&page, 1, "a", 1);
        assert!(set_back(&page, &[]));
        granted(&page, 2, "b", 7);
        granted(&page, 3, "a", 2);
        assert!(!set_back(&page, &[("a", 2)]));
        assert!(!set_back(&page, &[("a", 3)]));
        assert!(set_back(&page, &[("a", 1), ("b", 7)]));
        assert_eq!(highest_fence(&page), 7);
    }

    #[test]
    fn one_that_was_killed_before_its_commit_has_granted_nothing() {
        let page = page();
        granted(&page, 1, "a", 1);
        for number in 2..5 {
            note(&page, Write::of(number), &grant("a", 2));
            assert!(!set_back(&page, &[("a", 1)]));
            assert!(set_back(&page, &[("a", 0)]));
        }
        granted(&page, 5, "a", 2);
        assert!(set_back(&page, &[("a", 1)]));
    }

    #[test]
    fn one_that_confirms_late_takes_nothing_back() {
        let page = page();
        granted(&page, 1, "a", 1);
        note(&page, Write::of(2), &grant("a", 2));
        granted(&page, 3, "b", 1);
        confirm(&page, Write::of(2));
        assert!(set_back(&page, &[("a", 2)]));
        assert!(!set_back(&page, &[("a", 2), ("b", 1)]));
    }

    #[test]
    fn the_numbers_may_go_round() {
        let page = page();
        page.last_granted.store(u32::MAX - 2, Relaxed);
        granted(&page, u32::MAX - 1, "a", 1);
        granted(&page, u32::MAX, "a", 2);
        granted(&page, 0, "a", 3);
        assert!(set_back(&page, &[("a", 2)]));
        granted(&page, 1, "a", 4);
        assert!(set_back(&page, &[("a", 3)]));
        assert!(!set_back(&page, &[("a", 4)]));
    }

    #[test]
    fn of_what_was_not_noted_whole_nothing_is_said() {
        let page = page();
        for id in ["", "12345678", "123456789", &"가".repeat(309)] {
            granted(&page, 1, id, 5);
            assert!(set_back(&page, &[]), "{id}");
            assert!(!set_back(&page, &[(id, 5)]), "{id}");
            page.last_granted.store(0, Relaxed);
        }
        granted(&page, 2, &"x".repeat(929), 6);
        assert!(!set_back(&page, &[]), "too long");
        granted(&page, 3, "torn", 7);
        page.grants.iter().for_each(|place| place.fence.store(8, Relaxed));
        assert!(!set_back(&page, &[]), "torn");
    }
}
