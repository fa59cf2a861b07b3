-- q14: bids of middling price in euros, by time of day, with the number of 'c' in what they carry along.
SELECT
    auction, bidder, 0.908e0 * price AS price,
    CASE
        WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
        ELSE 'otherTime'
    END AS bid_time_type,
    date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bids
WHERE 0.908e0 * bids.price > 1000000 AND 0.908e0 * bids.price < 50000000
