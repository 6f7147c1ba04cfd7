//! What happens when the library is loaded.

use crate::sqlite::fork;

/// A fork in the middle of the first open then finds the handlers in place.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = {
    extern "C" fn on_load() {
        fork::register_handlers();
    }
    on_load
};
