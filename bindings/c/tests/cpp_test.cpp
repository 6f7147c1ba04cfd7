// The C++ layer: handles, answers, exceptions.

#include <fencepost.hpp>

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;
namespace fs = std::filesystem;

static int passed = 0;
static int failed = 0;

// Stands in for the library's, to see what the layer hands over.
static fencepost_options given;
extern "C" fencepost_status fencepost_open(const char *path, const fencepost_options *options, fencepost_db **db,
                                           fencepost_error *error) {
    given = *options;
    return reinterpret_cast<decltype(&fencepost_open)>(dlsym(RTLD_NEXT, "fencepost_open"))(path, options, db, error);
}

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) throw std::logic_error(std::string(__FILE__ ":") + std::to_string(__LINE__) + ": " #what);        \
    } while (0)

template <class Exception> static Exception thrown(const std::function<void()> &call) {
    try {
        call();
    } catch (const Exception &exception) {
        return exception;
    }
    throw std::logic_error("nothing was thrown");
}

struct folder {
    fs::path path;
    folder() {
        std::string name = (fs::temp_directory_path() / "fencepost-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
        path = name;
    }
    ~folder() { fs::remove_all(path); }
    folder(const folder &) = delete;
    folder &operator=(const folder &) = delete;
    [[nodiscard]] std::string file() const { return (path / "jobs.db").string(); }
};

static void test(const char *name, const std::function<void(const std::string &)> &body) {
    try {
        const folder here;
        body(here.file());
        ++passed;
    } catch (const std::exception &exception) {
        ++failed;
        std::printf("FAILED %s: %s\n", name, exception.what());
    }
}

static_assert(!std::is_copy_constructible_v<fencepost::db>);
static_assert(std::is_nothrow_move_constructible_v<fencepost::db>);
static_assert(std::is_nothrow_move_assignable_v<fencepost::db>);
// A clock that does not count from 1970 is no time for a file.
static_assert(!std::is_convertible_v<std::chrono::steady_clock::time_point, fencepost::moment>);
static_assert(!std::is_convertible_v<std::chrono::seconds, fencepost::moment>);

int main() {
    test("a worker that stalled past its lease is refused", [](const std::string &file) {
        fencepost::db db(file);
        db.init_db();
        CHECK(db.enqueue("report"));
        const auto stalled = db.claim("report", "A", 100, 10s).value();
        CHECK(db.claim("report", "B", 109.5, 10s).status() == FENCEPOST_HELD);
        const auto fence = db.claim("report", "B", 110, 10s);
        CHECK(fence && *fence == 2 && stalled == 1);
        CHECK(db.complete("report", "A", stalled, 111, "A's").status() == FENCEPOST_STALE);
        CHECK(db.complete("report", "B", *fence, 111, "B's"));
        CHECK(db.complete("report", "A", stalled, 112, "A's").status() == FENCEPOST_DONE);
        const auto job = db.state("report");
        CHECK(job->id == "report" && job->owner == "B" && job->until == 120 && job->fence == 2 && job->done);
        CHECK(job->result == "B's");
    });

    test("every operation, and what is absent is nullopt", [](const std::string &file) {
        fencepost::db db(file);
        db.init_db();
        CHECK(db.enqueue("") && db.enqueue("").status() == FENCEPOST_EXISTS);
        CHECK(!db.state("")->owner && !db.state("")->result && !db.state("")->done);
        CHECK(*db.claim("", "", 0, 500ms) == 1);
        CHECK(db.state("")->until == 0.5);
        CHECK(db.renew("", "", 1, 0.25, 1min) && db.state("")->until == 60.25);
        CHECK(db.release("", "", 1) && !db.state("")->owner);
        const auto many = db.claim_many("", {"a", "b", "c"}, 0, fencepost::seconds(1.5));
        CHECK(many && many->size() == 3 && (*many)[0] + (*many)[1] + (*many)[2] == 2);
        CHECK(db.claim_many("", {"a"}, 0, 1s).status() == FENCEPOST_HELD);
        CHECK(db.claim_many("", {}, 0, 1s)->empty());
        const char *owner = (*many)[0] != 0 ? "a" : (*many)[1] != 0 ? "b" : "c";
        CHECK(db.complete("", owner, 2, 1));
        CHECK(!db.state("")->result && db.state("")->done);
        CHECK(db.state("nobody").status() == FENCEPOST_NOT_FOUND);
    });

    test("the lease is over at until, and ended by its own owner and fence alone", [](const std::string &file) {
        fencepost::db db(file);
        db.init_db();
        CHECK(db.enqueue("a") && *db.claim("a", "w", 100, 10s) == 1);
        CHECK(db.renew("a", "w", 1, 110, 10s).status() == FENCEPOST_EXPIRED);
        CHECK(db.complete("a", "w", 1, 110, "r").status() == FENCEPOST_EXPIRED);
        CHECK(db.renew("a", "w", 2, 105, 10s).status() == FENCEPOST_STALE);
        CHECK(db.complete("a", "w", 2, 105, "r").status() == FENCEPOST_STALE);
        CHECK(db.release("a", "w", 2).status() == FENCEPOST_STALE);
        CHECK(db.release("a", "v", 1).status() == FENCEPOST_STALE);
        CHECK(db.release("a", "w", 1));
        CHECK(*db.claim_many("a", {"w"}, 200, 10s) == std::vector<std::int64_t>{2} && db.state("a")->until == 210);
    });

    test("value() of a refusal throws the refusal, as optional does", [](const std::string &file) {
        fencepost::db db(file);
        db.init_db();
        CHECK(thrown<fencepost::refused>([&] { (void)db.claim("a", "w", 0, 1s).value(); }).status() ==
              FENCEPOST_NOT_FOUND);
        CHECK(thrown<fencepost::refused>([&] { db.release("a", "w", 1).value(); }).status() == FENCEPOST_NOT_FOUND);
        const auto kept = db.claim("a", "w", 0, 1s);
        CHECK(thrown<fencepost::refused>([&] { (void)kept.value(); }).status() == FENCEPOST_NOT_FOUND);
    });

    test("an answer has a value or another in its place, as optional does", [](const std::string &file) {
        fencepost::db db(file);
        db.init_db();
        CHECK(db.enqueue("a").has_value() && !db.enqueue("a").has_value());
        const auto granted = db.claim("a", "w", 0, 1s);
        const auto held = db.claim("a", "v", 0, 1s);
        CHECK(granted.has_value() && granted.value_or(-1) == 1);
        CHECK(!held.has_value() && held.value_or(-1) == -1);
        CHECK(db.state("a").value_or(fencepost::job{}).owner == "w");
        const auto rest = db.enqueue_many({"a"}).value_or(std::vector<bool>{});
        CHECK(rest.empty());
        // What is moved out of is not copied.
        fencepost::answer<std::unique_ptr<int>> once(std::make_unique<int>(7));
        CHECK(*std::move(once).value_or(nullptr) == 7);
    });

    test("what() says what happened, what to do, and the status", [](const std::string &file) {
        const auto says = [](const std::exception &exception, const fencepost_error &detail, const char *status) {
            CHECK(detail.message[0] != 0);
            CHECK(exception.what() == std::string(detail.message) + " (" + status + ")");
        };
        fencepost::db db(file);
        fencepost_error detail;
        CHECK(fencepost_enqueue(db.get(), "a", &detail) == FENCEPOST_SCHEMA);
        says(thrown<fencepost::error>([&] { (void)db.enqueue("a"); }), detail, "FENCEPOST_SCHEMA");
        db.init_db();
        CHECK(fencepost_release(db.get(), "a", "w", 1, &detail) == FENCEPOST_NOT_FOUND);
        says(thrown<fencepost::refused>([&] { db.release("a", "w", 1).value(); }), detail, "FENCEPOST_NOT_FOUND");
        std::int64_t fence = 0;
        CHECK(fencepost_claim(db.get(), "a", "w", 0, 1, &fence, &detail) == FENCEPOST_NOT_FOUND);
        says(thrown<fencepost::refused>([&] { (void)db.claim("a", "w", 0, 1s).value(); }), detail,
             "FENCEPOST_NOT_FOUND");
        const auto kept = db.claim("a", "w", 0, 1s);
        says(thrown<fencepost::refused>([&] { (void)kept.value(); }), detail, "FENCEPOST_NOT_FOUND");
    });

    test("times are seconds or time points of the system's clock", [](const std::string &file) {
        using clock = std::chrono::system_clock;
        using milliseconds = std::chrono::time_point<clock, std::chrono::milliseconds>;
        const clock::time_point at(100s);
        fencepost::db db(file);
        db.init_db();
        CHECK(db.enqueue_at("a", milliseconds(99500ms)) && db.state("a")->until == 99.5);
        CHECK(db.count(fencepost::condition::claimable, at) == 1);
        CHECK(db.list(fencepost::condition::claimable, at, std::nullopt, 1).size() == 1);
        CHECK(*db.claim("a", "w", at, 10s) == 1 && db.state("a")->until == 110);
        CHECK(db.renew("a", "w", 1, at + 5s, 10s) && db.state("a")->until == 115);
        CHECK(db.release_at("a", "w", 1, at + 1min) && db.state("a")->until == 160);
        CHECK(db.claim_next("w", at + 59s, 1s).status() == FENCEPOST_NOT_FOUND);
        CHECK(db.claim_next("w", at + 1min, 1s)->fence == 2);
        CHECK(db.complete("a", "w", 2, at + 61s).status() == FENCEPOST_EXPIRED);
        CHECK(db.claim_batch("w", at + 61s, 1s, 1)->front().fence == 3);
        CHECK(db.complete_and_claim_next("a", "w", 3, at + 62s, "r", 1s).status() == FENCEPOST_EXPIRED);
        CHECK(db.claim_many("a", {"w"}, at + 62s, 1s)->front() == 4);
        CHECK(db.complete("a", "w", 4, at + 62s + 500ms));
    });

    test("a path is a std::filesystem::path, or what becomes one", [](const std::string &file) {
        const fencepost::db path(fs::path(file).parent_path() / "jobs.db");
        const fencepost::db text(file.c_str());
        const fencepost::db view(std::string_view(file), fencepost::options{});
        CHECK(fs::exists(file));
        // The last byte must be the path's own: a view ends nowhere else.
        const fencepost::db cut(std::string_view(file).substr(0, file.size() - 1));
        CHECK(fs::exists(file.substr(0, file.size() - 1)));
    });

    test("an error is an exception, with SQLite's code and what to do", [](const std::string &file) {
        std::ofstream(file) << std::string(5000, 'x');
        const auto error = thrown<fencepost::error>([&] { const fencepost::db db(file); });
        CHECK(error.status() == FENCEPOST_NOT_A_DATABASE && error.sqlite_code() == 26);
        CHECK(std::string(error.what()).find(file) != std::string::npos);
        CHECK(fs::file_size(file) == 5000);
    });

    test("a ttl of zero is an error, not a refusal", [](const std::string &file) {
        fencepost::db db(file);
        db.init_db();
        const auto error = thrown<fencepost::error>([&] { (void)db.claim("a", "w", 0, 0s); });
        CHECK(error.status() == FENCEPOST_INVALID_ARGUMENT);
    });

    test("an inner NUL is refused before the library is called", [](const std::string &file) {
        using namespace std::string_view_literals;
        fencepost::db db(file);
        db.init_db();
        const auto bad = "a\0b"sv;
        const std::vector<std::function<void()>> calls{
            [&] { const fencepost::db other(bad); },
            [&] { (void)db.enqueue(bad); },
            [&] { (void)db.state(bad); },
            [&] { (void)db.claim(bad, "w", 0, 1s); },
            [&] { (void)db.claim("a", bad, 0, 1s); },
            [&] { (void)db.renew("a", bad, 1, 0, 1s); },
            [&] { (void)db.complete("a", "w", 1, 0, bad); },
            [&] { (void)db.release("a", bad, 1); },
            [&] { (void)db.claim_many("a", {std::string(bad)}, 0, 1s); },
        };
        for (const auto &call : calls) thrown<std::invalid_argument>(call);
        CHECK(db.state("a").status() == FENCEPOST_NOT_FOUND);
    });

    test("options reach the library", [](const std::string &file) {
        fencepost::options existing;
        existing.flags = FENCEPOST_OPEN_EXISTING;
        CHECK(thrown<fencepost::error>([&] { const fencepost::db db(file, existing); }).status() ==
              FENCEPOST_CANNOT_OPEN);
        fencepost::options how;
        how.durability = fencepost::durability::normal;
        fencepost::db db(file, how);
        CHECK(given.size == sizeof given && given.durability == FENCEPOST_DURABILITY_NORMAL && given.flags == 0);
        db.init_db();
        how.flags = FENCEPOST_OPEN_READ_ONLY | FENCEPOST_OPEN_KEEP_JOURNAL_MODE;
        fencepost::db reader(file, how);
        CHECK(given.flags == how.flags);
        CHECK(thrown<fencepost::error>([&] { (void)reader.enqueue("a"); }).status() == FENCEPOST_READ_ONLY);
        CHECK(!reader.state("a") && reader.count(fencepost::condition::held, 0) == 0);
        CHECK(reader.list(fencepost::condition::held, 0, std::nullopt, 1).empty());
        const fencepost::db plain(file);
        CHECK(given.busy_timeout_ms == 0 && given.durability == FENCEPOST_DURABILITY_FULL && given.flags == 0);
    });

    test("a busy timeout of zero is no wait, and a long one is the longest there is", [](const std::string &file) {
        const std::vector<std::pair<std::chrono::milliseconds, std::int32_t>> timeouts{
            {0ms, -1}, {-5ms, -1}, {1ms, 1}, {2s, 2000}, {std::chrono::hours(24 * 365), INT32_MAX}};
        for (const auto &[timeout, expected] : timeouts) {
            fencepost::options how;
            how.busy_timeout = timeout;
            const fencepost::db db(file, how);
            CHECK(given.busy_timeout_ms == expected);
        }
    });

    test("a handle moves, and closes once", [](const std::string &file) {
        fencepost::db first(file);
        first.init_db();
        fencepost::db second(std::move(first));
        CHECK(first.get() == nullptr && second.get() != nullptr); // NOLINT
        first = std::move(second);
        CHECK(first.enqueue("a"));
    });

    test("a worker's loop: what comes next, until there is nothing", [](const std::string &file) {
        fencepost::db db(file);
        db.init_db();
        CHECK(db.claim_next("w", 100, 10s).status() == FENCEPOST_NOT_FOUND);
        const auto added = db.enqueue_many({"a", "b", "a"});
        CHECK((*added == std::vector<bool>{true, true, false}));
        CHECK(db.enqueue_many({"b"}).status() == FENCEPOST_EXISTS && db.enqueue_many({})->empty());
        std::vector<std::string> worked;
        for (std::optional<fencepost::grant> job = *db.claim_next("w", 100, 10s); job;) {
            worked.push_back(job->id);
            job = db.complete_and_claim_next(job->id, "w", job->fence, 101, "done", 10s).value();
        }
        CHECK((worked == std::vector<std::string>{"a", "b"}) && db.state("b")->result == "done");
        CHECK(db.complete_and_claim_next("a", "w", 1, 101, std::nullopt, 10s).status() == FENCEPOST_DONE);
    });

    test("batches, delays, and a look at what is there", [](const std::string &file) {
        using fencepost::condition;
        fencepost::db db(file);
        db.init_db();
        CHECK(db.enqueue_at("late", 150) && db.enqueue("a") && db.enqueue("b"));
        CHECK(db.count(condition::delayed, 100) == 1 && db.count(condition::claimable, 100) == 2);
        const auto grants = db.claim_batch("w", 100, 10s, 9).value();
        CHECK(grants.size() == 2 && grants[0].id == "a" && grants[1].id == "b" && grants[1].fence == 1);
        CHECK(db.claim_batch("w", 100, 10s, 9).status() == FENCEPOST_NOT_FOUND);
        CHECK(db.release_at("a", "w", 1, 200) && db.release_at("a", "w", 1, 200).status() == FENCEPOST_STALE);
        const auto first = db.list(condition::delayed, 100, std::nullopt, 1);
        CHECK(first.size() == 1 && first[0].id == "a" && first[0].until == 200 && !first[0].owner);
        const auto second = db.list(condition::delayed, 100, first[0].id, 9);
        CHECK(second.size() == 1 && second[0].id == "late");
        CHECK(db.list(condition::delayed, 100, "late", 9).empty());
        CHECK(db.list(condition::held, 100, std::nullopt, 9)[0].owner == "w");
        CHECK(thrown<fencepost::error>([&] { (void)db.list(condition::held, 1, std::nullopt, 0); }).status() ==
              FENCEPOST_INVALID_ARGUMENT);
        CHECK(thrown<fencepost::error>([&] { (void)db.claim_batch("w", 1, 1s, 0); }).status() ==
              FENCEPOST_INVALID_ARGUMENT);
    });

    test("many threads use one handle", [](const std::string &file) {
        fencepost::options quick;
        quick.durability = fencepost::durability::normal;
        quick.busy_timeout = 1min;
        fencepost::db db(file, quick);
        db.init_db();
        CHECK(db.enqueue("a"));
        std::vector<std::int64_t> granted(16);
        std::vector<std::thread> threads;
        for (std::size_t index = 0; index < granted.size(); ++index) {
            threads.emplace_back([&db, &granted, index] {
                const auto fence = db.claim("a", std::to_string(index), 0, 1s);
                granted[index] = fence ? *fence : 0;
            });
        }
        for (auto &thread : threads) thread.join();
        std::int64_t sum = 0;
        for (const auto fence : granted) sum += fence;
        CHECK(sum == 1);
    });

    test("the header's version is the library's", [](const std::string &) {
        CHECK(std::string(fencepost_version()) == FENCEPOST_VERSION);
        CHECK(fencepost::now() > 1.7e9);
    });

    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
