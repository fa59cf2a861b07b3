-- q6: the average winning price of each seller's last ten auctions that were closed by the end of a window.
WITH winning AS (
    SELECT auctions.id, auctions.seller, auctions.expires, max(bids.price) AS price
    FROM auctions
    JOIN bids ON bids.auction = auctions.id AND bids.date_time BETWEEN auctions.date_time AND auctions.expires
    GROUP BY auctions.id, auctions.seller, auctions.expires
),
averages AS (
    SELECT
        tumbling(expires, $window_us) AS window_start, seller, expires, id,
        (sum(price) OVER last_ten)::DOUBLE / (count(*) OVER last_ten)::DOUBLE AS average
    FROM winning
    WINDOW last_ten AS (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
)
SELECT window_start, seller, average
FROM averages
QUALIFY row_number() OVER (PARTITION BY window_start, seller ORDER BY expires DESC, id DESC) = 1
