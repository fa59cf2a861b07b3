-- q17: prices of each auction in each window.
SELECT
    tumbling(date_time, $window_us) AS window_start, auction,
    count(*) AS total_bids,
    count(*) FILTER (price < 10000) AS rank1_bids,
    count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (price >= 1000000) AS rank3_bids,
    min(price) AS min_price, max(price) AS max_price,
    sum(price)::DOUBLE / count(*)::DOUBLE AS avg_price, sum(price)::BIGINT AS sum_price
FROM bids
GROUP BY window_start, auction
