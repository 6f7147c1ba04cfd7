// Compiled for another minor version than the library's: opening is refused, and nothing is made.
#include <fencepost.h>
#undef FENCEPOST_VERSION_MINOR
#define FENCEPOST_VERSION_MINOR 99
#include <fencepost.hpp>

#include <cstdio>

int main() {
    const std::string file = "/nonexistent/jobs.db";
    try {
        const fencepost::db db(file);
    } catch (const fencepost::error &) {
        std::puts("the library was asked first");
        return 1;
    } catch (const std::runtime_error &problem) {
        const std::string what = problem.what();
        return what.find(fencepost_version()) == std::string::npos || what.find("0.99.0") == std::string::npos;
    }
    return 1;
}
