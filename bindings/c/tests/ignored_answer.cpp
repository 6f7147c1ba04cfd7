// Must not compile with -Werror: an answer that is overlooked.
#include <fencepost.hpp>

void ignore(fencepost::db &db) { db.release("a", "w", 1); }
