// A worker that takes one job, renews its lease while it works, and stores the result under its fence.
//
//     worker FILE JOB OWNER

#include <fencepost.hpp>

#include <iostream>
#include <string>

using namespace std::chrono_literals;

static void work(const std::string &file, const std::string &id, const std::string &owner) {
    constexpr auto ttl = 10s;

    fencepost::db db(file);
    db.init_db();
    if (!db.enqueue(id)) std::cout << id << " is there already\n";

    // value() throws what the rules refuse: this worker can do nothing then but stop.
    const auto fence = db.claim(id, owner, fencepost::now(), ttl).value();
    std::cout << owner << " holds " << id << " with fence " << fence << '\n';

    for (int part = 1; part <= 3; ++part) {
        db.renew(id, owner, fence, fencepost::now(), ttl).value();
        std::cout << "part " << part << " is done\n";
    }
    db.complete(id, owner, fence, fencepost::now(), "three parts").value();
    std::cout << "stored\n";
}

int main(int count, char **arguments) {
    if (count != 4) {
        std::cerr << "usage: worker FILE JOB OWNER\n";
        return 2;
    }
    try {
        work(arguments[1], arguments[2], arguments[3]);
    } catch (const std::exception &problem) {
        std::cerr << problem.what() << '\n';
        return 1;
    }
}
