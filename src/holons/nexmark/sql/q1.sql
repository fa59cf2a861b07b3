-- q1: all bids, in euros.
SELECT auction, bidder, 0.908e0 * price AS price, date_time, extra
FROM bids
