-- q20: bids for auctions of category 10, with what is known of the auction.
SELECT bids.auction, bids.bidder, bids.price, bids.date_time, auctions.seller, auctions.category, auctions.expires
FROM bids
JOIN auctions ON bids.auction = auctions.id
WHERE auctions.category = 10
