-- q7: the highest bid of each window, of equal ones the first.
SELECT tumbling(date_time, $window_us) AS window_start, auction, bidder, price, date_time
FROM bids
QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY price DESC, date_time, _partition, _offset) = 1
