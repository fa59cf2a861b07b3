-- q4: the average winning price of each category, over all auctions that were closed by the end of a window.
WITH winning AS (
    SELECT auctions.id, auctions.category, auctions.expires, max(bids.price) AS price
    FROM auctions
    JOIN bids ON bids.auction = auctions.id AND bids.date_time BETWEEN auctions.date_time AND auctions.expires
    GROUP BY auctions.id, auctions.category, auctions.expires
),
closing AS (
    SELECT tumbling(expires, $window_us) AS window_start, category, sum(price) AS total, count(*) AS closed
    FROM winning
    GROUP BY window_start, category
)
SELECT window_start, category, (sum(total) OVER so_far)::DOUBLE / (sum(closed) OVER so_far)::DOUBLE AS average
FROM closing
WINDOW so_far AS (PARTITION BY category ORDER BY window_start)
