-- What the queries share: the last instant that is a multiple of a width, counted from 1970, and the window there.
CREATE MACRO floor_us(instant_us, width_us) AS instant_us - (instant_us % width_us + width_us) % width_us;
CREATE MACRO tumbling(instant, width_us) AS make_timestamptz(floor_us(epoch_us(instant), width_us));
