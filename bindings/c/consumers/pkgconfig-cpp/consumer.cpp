// Claims one job in the file given, and prints its fence and the library's version.
#include <fencepost.hpp>

#include <iostream>

int main(int count, char **arguments) {
    using namespace std::chrono_literals;

    if (count != 2) return 2;
    try {
        fencepost::db db(arguments[1]);
        db.init_db();
        db.enqueue("job").value();
        const auto fence = db.claim("job", "C++", 100, 10s).value();
        std::cout << "C++: fence " << fence << " from fencepost " << fencepost_version() << '\n';
    } catch (const std::exception &problem) {
        std::cerr << problem.what() << '\n';
        return 1;
    }
}
