// Linux calls that Swift cannot import. No state, no policy.
#pragma once
