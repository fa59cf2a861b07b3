-- q3: who sells in category 10, in three states.
SELECT people.name, people.city, people.state, auctions.id
FROM auctions
JOIN people ON auctions.seller = people.id
WHERE auctions.category = 10 AND people.state IN ('OR', 'ID', 'CA')
