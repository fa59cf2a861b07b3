-- q2: bids for some auctions.
SELECT auction, price
FROM bids
WHERE auction % 123 = 0
