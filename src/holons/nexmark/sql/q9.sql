-- q9: the winning bid of each auction: the highest while it was open, of equal ones the first.
SELECT
    auctions.id AS auction, auctions.seller, auctions.category, auctions.expires,
    bids.bidder, bids.price, bids.date_time
FROM auctions
JOIN bids ON bids.auction = auctions.id AND bids.date_time BETWEEN auctions.date_time AND auctions.expires
QUALIFY row_number() OVER (
    PARTITION BY auctions.id ORDER BY bids.price DESC, bids.date_time, bids._partition, bids._offset
) = 1
