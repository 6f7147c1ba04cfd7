/**
 * @file
 * fencepost for C++17: fencepost.h with a handle that closes itself, answers that cannot be overlooked, and
 * errors as exceptions. Header-only; link with libfencepost. What each operation does, and when it is refused,
 * stands in fencepost.h.
 *
 * - A refusal is an answer (see fencepost::answer). An error is thrown as fencepost::error.
 * - Strings are UTF-8. One with an inner NUL is a std::invalid_argument before the library is called.
 * - Times are seconds by the caller's clock, as double, or time points of std::chrono::system_clock (see
 *   fencepost::moment); a ttl is any std::chrono::duration. The clock should count from
 *   0 upwards: a new job can be claimed from 0 on, and no sooner.
 * - Any number of threads may use one db. Destroying or moving it while a call runs is the caller's error.
 */
#ifndef FENCEPOST_HPP
#define FENCEPOST_HPP

#include <fencepost.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fencepost {

namespace detail {

/// What the exceptions say.
inline std::string described(fencepost_status status, const std::string &message) {
    return message + " (" + fencepost_status_name(status) + ')';
}

} // namespace detail

/// Seconds as a double: any std::chrono::duration converts to it.
using seconds = std::chrono::duration<double>;

/// A time: seconds by the caller's clock, or a time point of the system's. All callers of a file must use clocks that
/// agree.
class moment {
public:
    moment(double since_epoch) noexcept : seconds_(since_epoch) {}

    /// Seconds since 1970, to the nearest double.
    template <class Duration>
    moment(std::chrono::time_point<std::chrono::system_clock, Duration> point) noexcept
        : seconds_(seconds(point.time_since_epoch()).count()) {}

    [[nodiscard]] double count() const noexcept { return seconds_; }

private:
    double seconds_;
};

/// An operation that could not be carried out: its status is below 0. what() says what happened, to what, what to do,
/// and the status' name.
class error : public std::runtime_error {
public:
    error(fencepost_status status, const fencepost_error &detail)
        : std::runtime_error(detail::described(status, detail.message)), status_(status),
          sqlite_code_(detail.sqlite_code) {}

    [[nodiscard]] fencepost_status status() const noexcept { return status_; }

    /// SQLite's extended result code, 0 when SQLite had no part in it.
    [[nodiscard]] int sqlite_code() const noexcept { return sqlite_code_; }

private:
    fencepost_status status_;
    int sqlite_code_;
};

/// Thrown by answer::value() when there is none. what() says why, what to do, and the status' name.
class refused : public std::runtime_error {
public:
    refused(fencepost_status status, const std::string &message)
        : std::runtime_error(detail::described(status, message)), status_(status) {}

    [[nodiscard]] fencepost_status status() const noexcept { return status_; }

private:
    fencepost_status status_;
};

/// What an operation answers: a value, or the status of a refusal. Like std::optional, with a reason.
template <class T> class [[nodiscard]] answer {
public:
    answer(fencepost_status refusal, const fencepost_error &detail) : status_(refusal), message_(detail.message) {}
    explicit answer(T value) : value_(std::move(value)) {}

    /// FENCEPOST_OK, or why it was refused.
    [[nodiscard]] fencepost_status status() const noexcept { return status_; }
    [[nodiscard]] bool has_value() const noexcept { return value_.has_value(); }
    [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }

    /// The value, or fencepost::refused.
    [[nodiscard]] const T &value() const & {
        if (!value_) throw refused(status_, message_);
        return *value_;
    }
    [[nodiscard]] T value() && {
        if (!value_) throw refused(status_, message_);
        return std::move(*value_);
    }

    /// The value, or another in its place.
    template <class U> [[nodiscard]] T value_or(U &&other) const & { return value_.value_or(std::forward<U>(other)); }
    template <class U> [[nodiscard]] T value_or(U &&other) && {
        return std::move(value_).value_or(std::forward<U>(other));
    }

    /// The value; there must be one.
    [[nodiscard]] const T &operator*() const noexcept { return *value_; }
    [[nodiscard]] const T *operator->() const noexcept { return &*value_; }

private:
    fencepost_status status_ = FENCEPOST_OK;
    std::string message_;
    std::optional<T> value_;
};

/// What an operation without a value answers.
template <> class [[nodiscard]] answer<void> {
public:
    answer(fencepost_status status, const fencepost_error &detail) : status_(status), message_(detail.message) {}

    /// FENCEPOST_OK, or why it was refused.
    [[nodiscard]] fencepost_status status() const noexcept { return status_; }
    [[nodiscard]] bool has_value() const noexcept { return status_ == FENCEPOST_OK; }
    [[nodiscard]] explicit operator bool() const noexcept { return has_value(); }

    /// Nothing, or fencepost::refused.
    void value() const {
        if (!has_value()) throw refused(status_, message_);
    }

private:
    fencepost_status status_;
    std::string message_;
};

/// One row of the table jobs; see fencepost_job.
struct job {
    std::string id;
    std::optional<std::string> owner;
    double until = 0;
    std::int64_t fence = 0;
    std::optional<std::string> result;
    bool done = false;
};

/// A job that was granted to its claimer.
struct grant {
    std::string id;
    std::int64_t fence = 0;
};

/// What can be said of a job at one moment; see FENCEPOST_CONDITION_*.
enum class condition : std::int32_t {
    claimable = FENCEPOST_CONDITION_CLAIMABLE,
    held = FENCEPOST_CONDITION_HELD,
    delayed = FENCEPOST_CONDITION_DELAYED,
    done = FENCEPOST_CONDITION_DONE,
    broken = FENCEPOST_CONDITION_BROKEN
};

enum class durability : std::int32_t { full = FENCEPOST_DURABILITY_FULL, normal = FENCEPOST_DURABILITY_NORMAL };

/// How to open a file; see fencepost_options.
struct options {
    /// How long a call waits for the file's locks; none: 5 seconds, zero: no wait.
    std::optional<std::chrono::milliseconds> busy_timeout;
    fencepost::durability durability = durability::full;
    /// FENCEPOST_OPEN_* flags, or-ed. With FENCEPOST_OPEN_READ_ONLY, state, count and list work.
    std::uint32_t flags = 0;
};

/// Seconds since 1970 by the system's clock, for callers with none of their own.
[[nodiscard]] inline double now() noexcept { return fencepost_now(); }

namespace detail {

/// A string as C takes it.
class text {
public:
    text(std::string_view given, const char *name) : copy_(given) {
        if (given.find('\0') != std::string_view::npos) {
            throw std::invalid_argument(std::string(name) + " has an inner NUL");
        }
    }
    [[nodiscard]] const char *c_str() const noexcept { return copy_.c_str(); }

private:
    std::string copy_;
};

inline std::optional<std::string> optional(const char *given) {
    return given == nullptr ? std::nullopt : std::make_optional<std::string>(given);
}

/// Strings as an array of C's.
class texts {
public:
    texts(const std::vector<std::string> &given, const char *name) {
        copies_.reserve(given.size());
        pointers_.reserve(given.size());
        for (const auto &one : given) pointers_.push_back(copies_.emplace_back(one, name).c_str());
    }
    [[nodiscard]] const char *const *data() const noexcept { return pointers_.data(); }
    [[nodiscard]] std::size_t size() const noexcept { return pointers_.size(); }

private:
    std::vector<text> copies_;
    std::vector<const char *> pointers_;
};

/// Frees what the library has made.
struct release {
    void operator()(fencepost_job *row) const noexcept { fencepost_job_free(row); }
    void operator()(fencepost_jobs *rows) const noexcept { fencepost_jobs_free(rows); }
    void operator()(fencepost_grant *granted) const noexcept { fencepost_grant_free(granted); }
    void operator()(fencepost_grants *granted) const noexcept { fencepost_grants_free(granted); }
};

template <class T> using owned = std::unique_ptr<T, release>;

inline job copy(const fencepost_job &row) {
    return job{row.id, optional(row.owner), row.until, row.fence, optional(row.result), row.done};
}

inline grant copy(const fencepost_grant &granted) { return grant{granted.id, granted.fence}; }

/// Throws for an error, and passes a refusal and OK on.
inline fencepost_status check(fencepost_status status, const fencepost_error &detail) {
    if (status < 0) throw error(status, detail);
    return status;
}

/// What an operation without a value answers.
inline answer<void> answered(fencepost_status status, const fencepost_error &detail) {
    return answer<void>(check(status, detail), detail);
}

inline std::int32_t milliseconds(const std::optional<std::chrono::milliseconds> &timeout) noexcept {
    if (!timeout) return 0;
    if (timeout->count() <= 0) return -1;
    constexpr auto most = std::numeric_limits<std::int32_t>::max();
    return timeout->count() > most ? most : static_cast<std::int32_t>(timeout->count());
}

/// Before 1.0 another minor version may be another ABI.
inline void check_version() {
    const std::string loaded = fencepost_version();
    const std::string expected =
        std::to_string(FENCEPOST_VERSION_MAJOR) + '.' + std::to_string(FENCEPOST_VERSION_MINOR) + '.';
    if (loaded.compare(0, expected.size(), expected) != 0) {
        throw std::runtime_error("libfencepost is version " + loaded + ", and this program was compiled for " +
                                 FENCEPOST_VERSION + "; install that one, or compile anew");
    }
}

} // namespace detail

/// An open file. Moves, does not copy, and closes itself.
class db {
public:
    /// Opens the file, making it when it is missing. Throws fencepost::error, and std::runtime_error when the
    /// loaded library is of another version than the header.
    explicit db(const std::filesystem::path &path, const options &how = {}) {
        detail::check_version();
        fencepost_options given{};
        given.size = sizeof given;
        given.busy_timeout_ms = detail::milliseconds(how.busy_timeout);
        given.durability = static_cast<std::int32_t>(how.durability);
        given.flags = how.flags;
        fencepost_db *opened = nullptr;
        fencepost_error detail;
        detail::check(fencepost_open(detail::text(path.native(), "path").c_str(), &given, &opened, &detail), detail);
        handle_.reset(opened);
    }

    /// The handle, for calls of fencepost.h; still owned by this object.
    [[nodiscard]] fencepost_db *get() const noexcept { return handle_.get(); }

    /// Makes the table jobs where it is missing.
    void init_db() {
        fencepost_error detail;
        detail::check(fencepost_init_db(get(), &detail), detail);
    }

    /// Adds a job. Refused: EXISTS.
    answer<void> enqueue(std::string_view id) {
        fencepost_error detail;
        return detail::answered(fencepost_enqueue(get(), detail::text(id, "id").c_str(), &detail), detail);
    }

    /// Adds a job that is not to be claimed before a time. Refused: EXISTS.
    answer<void> enqueue_at(std::string_view id, moment not_before) {
        fencepost_error detail;
        return detail::answered(fencepost_enqueue_at(get(), detail::text(id, "id").c_str(), not_before.count(),
                                                     &detail),
                                detail);
    }

    /// Adds many jobs at once; says of each, in their order, whether it was added. Refused when all exist: EXISTS.
    answer<std::vector<bool>> enqueue_many(const std::vector<std::string> &ids) {
        const detail::texts names(ids, "ids");
        const auto added = std::make_unique<bool[]>(ids.size());
        fencepost_error detail;
        const auto status = detail::check(
            fencepost_enqueue_many(get(), names.data(), names.size(), added.get(), &detail), detail);
        using added_or_refusal = answer<std::vector<bool>>;
        if (status != FENCEPOST_OK) return added_or_refusal(status, detail);
        return added_or_refusal(std::vector<bool>(added.get(), added.get() + ids.size()));
    }

    /// Takes the claimable job that comes next. Refused when nothing is claimable: NOT_FOUND.
    answer<grant> claim_next(std::string_view owner, moment now, seconds ttl) {
        fencepost_error detail;
        fencepost_grant *given = nullptr;
        const auto status = detail::check(
            fencepost_claim_next(get(), detail::text(owner, "owner").c_str(), now.count(), ttl.count(), &given,
                                 &detail),
            detail);
        if (status != FENCEPOST_OK) return answer<grant>(status, detail);
        return answer<grant>(detail::copy(*detail::owned<fencepost_grant>(given)));
    }

    /// Takes up to max claimable jobs at once, those that come next. Refused when nothing is claimable: NOT_FOUND.
    answer<std::vector<grant>> claim_batch(std::string_view owner, moment now, seconds ttl, std::size_t max) {
        fencepost_error detail;
        fencepost_grants *given = nullptr;
        const auto status = detail::check(
            fencepost_claim_batch(get(), detail::text(owner, "owner").c_str(), now.count(), ttl.count(), max, &given,
                                  &detail),
            detail);
        if (status != FENCEPOST_OK) return answer<std::vector<grant>>(status, detail);
        const detail::owned<fencepost_grants> all(given);
        std::vector<grant> copies;
        copies.reserve(all->count);
        for (std::size_t index = 0; index < all->count; ++index) copies.push_back(detail::copy(*all->grants[index]));
        return answer<std::vector<grant>>(std::move(copies));
    }

    /// Completes a job and takes the one that comes next, with one sync; none when nothing is claimable. Refused as
    /// complete is, and then nothing is claimed.
    answer<std::optional<grant>> complete_and_claim_next(std::string_view id, std::string_view owner,
                                                         std::int64_t fence, moment now,
                                                         std::optional<std::string_view> result, seconds ttl) {
        fencepost_error detail;
        fencepost_grant *given = nullptr;
        const detail::text copy(result.value_or(std::string_view()), "result");
        const auto status = detail::check(
            fencepost_complete_and_claim_next(get(), detail::text(id, "id").c_str(),
                                              detail::text(owner, "owner").c_str(), fence, now.count(),
                                              result ? copy.c_str() : nullptr, ttl.count(), &given, &detail),
            detail);
        using next_or_refusal = answer<std::optional<grant>>;
        if (status != FENCEPOST_OK) return next_or_refusal(status, detail);
        const detail::owned<fencepost_grant> next(given);
        return next_or_refusal(next ? std::make_optional(detail::copy(*next)) : std::nullopt);
    }

    /// Ends the lease or delay that a job has, whoever holds it, and gives its raised fence, which is nobody's: whoever
    /// checks fences elsewhere can be told to refuse those below it. Refused: NOT_FOUND, DONE.
    answer<std::int64_t> force_release(std::string_view id) {
        fencepost_error detail;
        std::int64_t fence = 0;
        const auto status =
            detail::check(fencepost_force_release(get(), detail::text(id, "id").c_str(), &fence, &detail), detail);
        return status == FENCEPOST_OK ? answer<std::int64_t>(fence) : answer<std::int64_t>(status, detail);
    }

    /// Puts a complete job back into the line, without its result. Refused: NOT_FOUND; EXISTS when it is not complete.
    answer<void> requeue(std::string_view id) {
        fencepost_error detail;
        return detail::answered(fencepost_requeue(get(), detail::text(id, "id").c_str(), &detail), detail);
    }

    /// Removes up to max complete jobs whose until is not after before (infinity: all), and says how many. Every fence
    /// from then on is above theirs.
    std::uint64_t purge(moment before, std::size_t max) {
        fencepost_error detail;
        std::uint64_t purged = 0;
        detail::check(fencepost_purge(get(), before.count(), max, &purged, &detail), detail);
        return purged;
    }

    /// From now on every fence is above to, and leases under fences up to it are ended. For a restored backup.
    void raise_floor(std::int64_t to) {
        fencepost_error detail;
        detail::check(fencepost_raise_floor(get(), to, &detail), detail);
    }

    /// How many jobs are in a condition.
    std::uint64_t count(condition which, moment now) {
        fencepost_error detail;
        std::uint64_t counted = 0;
        detail::check(fencepost_count(get(), static_cast<std::int32_t>(which), now.count(), &counted, &detail), detail);
        return counted;
    }

    /// Up to max jobs in a condition, in the order of their ids' bytes; after is the last id of the page before. Of what
    /// is broken, id is a condition in SQL that finds the row, and nothing else is told.
    std::vector<job> list(condition which, moment now, std::optional<std::string_view> after, std::size_t max) {
        fencepost_error detail;
        fencepost_jobs *found = nullptr;
        const detail::text copy(after.value_or(std::string_view()), "after");
        detail::check(fencepost_list(get(), static_cast<std::int32_t>(which), now.count(),
                                     after ? copy.c_str() : nullptr, max, &found, &detail),
                      detail);
        const detail::owned<fencepost_jobs> all(found);
        std::vector<job> copies;
        copies.reserve(all->count);
        for (std::size_t index = 0; index < all->count; ++index) copies.push_back(detail::copy(*all->jobs[index]));
        return copies;
    }

    /// Reads a job as it is stored now. Refused: NOT_FOUND.
    answer<job> state(std::string_view id) {
        fencepost_error detail;
        fencepost_job *read = nullptr;
        const auto status =
            detail::check(fencepost_state(get(), detail::text(id, "id").c_str(), &read, &detail), detail);
        if (status != FENCEPOST_OK) return answer<job>(status, detail);
        const detail::owned<fencepost_job> row(read);
        return answer<job>(detail::copy(*row));
    }

    /// Takes the job until now + ttl and gives the new fence. Refused: NOT_FOUND, DONE, HELD.
    answer<std::int64_t> claim(std::string_view id, std::string_view owner, moment now, seconds ttl) {
        fencepost_error detail;
        std::int64_t fence = 0;
        const auto status = detail::check(fencepost_claim(get(), detail::text(id, "id").c_str(),
                                                          detail::text(owner, "owner").c_str(), now.count(),
                                                          ttl.count(), &fence, &detail),
                                          detail);
        return status == FENCEPOST_OK ? answer<std::int64_t>(fence) : answer<std::int64_t>(status, detail);
    }

    /// Makes the lease run until now + ttl. Refused: NOT_FOUND, DONE, STALE, EXPIRED.
    answer<void> renew(std::string_view id, std::string_view owner, std::int64_t fence, moment now, seconds ttl) {
        fencepost_error detail;
        return detail::answered(fencepost_renew(get(), detail::text(id, "id").c_str(),
                                                detail::text(owner, "owner").c_str(), fence, now.count(), ttl.count(),
                                                &detail),
                                detail);
    }

    /// Stores the result (none is not the empty string) and completes the job. Refused: as renew.
    ///
    /// DONE does not say whose completion it was, and one that is repeated gets it as well. A worker that does not
    /// know whether its own was stored, because it ended or got FENCEPOST_IO before the answer, asks state(): the job
    /// is done, and owner and fence are the worker's own, exactly when it was.
    answer<void> complete(std::string_view id, std::string_view owner, std::int64_t fence, moment now,
                          std::optional<std::string_view> result = std::nullopt) {
        fencepost_error detail;
        const detail::text copy(result.value_or(std::string_view()), "result");
        return detail::answered(fencepost_complete(get(), detail::text(id, "id").c_str(),
                                                   detail::text(owner, "owner").c_str(), fence, now.count(),
                                                   result ? copy.c_str() : nullptr, &detail),
                                detail);
    }

    /// Gives the job back; its fence stays. Refused: NOT_FOUND, DONE, STALE.
    answer<void> release(std::string_view id, std::string_view owner, std::int64_t fence) {
        fencepost_error detail;
        return detail::answered(fencepost_release(get(), detail::text(id, "id").c_str(),
                                                  detail::text(owner, "owner").c_str(), fence, &detail),
                                detail);
    }

    /// Gives the job back, not to be claimed before a time. Refused: NOT_FOUND, DONE, STALE.
    answer<void> release_at(std::string_view id, std::string_view owner, std::int64_t fence, moment not_before) {
        fencepost_error detail;
        return detail::answered(fencepost_release_at(get(), detail::text(id, "id").c_str(),
                                                     detail::text(owner, "owner").c_str(), fence, not_before.count(),
                                                     &detail),
                                detail);
    }

    /// Claims one job for many owners at the same time; fences in their order, 0 for those not granted.
    /// Refused when none is granted: NOT_FOUND, DONE, HELD.
    answer<std::vector<std::int64_t>> claim_many(std::string_view id, const std::vector<std::string> &owners,
                                                 moment now, seconds ttl) {
        const detail::texts names(owners, "owners");
        std::vector<std::int64_t> fences(owners.size());
        fencepost_error detail;
        const auto status =
            detail::check(fencepost_claim_many(get(), detail::text(id, "id").c_str(), names.data(), names.size(),
                                               now.count(), ttl.count(), fences.data(), &detail),
                          detail);
        using fences_or_refusal = answer<std::vector<std::int64_t>>;
        return status == FENCEPOST_OK ? fences_or_refusal(std::move(fences)) : fences_or_refusal(status, detail);
    }

private:
    struct close {
        void operator()(fencepost_db *handle) const noexcept { fencepost_close(handle); }
    };

    std::unique_ptr<fencepost_db, close> handle_;
};

} // namespace fencepost

#endif
