// Pure; owns nothing. Items that are kept in the order of their keys, `id`.
#pragma once

#include <algorithm>
#include <cstring>

#include "pg/postgres.hpp"

extern "C" {
#include "utils/uuid.h"
}

namespace pawl {

// The item of this key; null: none of them has it.
template <typename Item>
Item* find_by_id(Item* items, int n, const pg_uuid_t& id) {
    const auto precedes = [](const Item& item, const pg_uuid_t& key) { return memcmp(&item.id, &key, UUID_LEN) < 0; };
    Item* end = items + n;
    Item* found = std::lower_bound(items, end, id, precedes);
    return found != end && memcmp(&found->id, &id, UUID_LEN) == 0 ? found : nullptr;
}

}  // namespace pawl
